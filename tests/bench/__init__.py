# SPDX-License-Identifier: Apache-2.0
"""Measurements: make bench."""
