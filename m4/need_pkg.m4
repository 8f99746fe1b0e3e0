# SPDX-License-Identifier: Apache-2.0
#
# NEED_PKG([VAR], [module >= version], [apt package], [dnf package])
# PKG_CHECK_MODULES that goes on after a miss, so that one run of configure names them all.
AC_DEFUN([NEED_PKG], [
PKG_CHECK_MODULES([$1], [$2], [], [
	AC_MSG_RESULT([no])
	need_pkg_missing="$need_pkg_missing
  $2"
	need_pkg_apt="$need_pkg_apt $3"
	need_pkg_dnf="$need_pkg_dnf $4"
])
])

# NEED_HEADER([header], [apt package], [dnf package]): the same for libraries that are headers only.
AC_DEFUN([NEED_HEADER], [
AC_CHECK_HEADER([$1], [], [
	need_pkg_missing="$need_pkg_missing
  $1"
	need_pkg_apt="$need_pkg_apt $2"
	need_pkg_dnf="$need_pkg_dnf $3"
])
])

# NEED_PKG_END: after the last NEED_PKG.  Fails if anything was missing, and names the cure.
AC_DEFUN([NEED_PKG_END], [
if test -n "$need_pkg_missing"; then
	AC_MSG_ERROR([missing, or too old:$need_pkg_missing
The cure is one of
  apt install$need_pkg_apt
  dnf install$need_pkg_dnf])
fi
])
