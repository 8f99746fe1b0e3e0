# SPDX-License-Identifier: Apache-2.0
"""What the tests stand on: machines, stores, a proxy that spoils answers, and an oracle."""
