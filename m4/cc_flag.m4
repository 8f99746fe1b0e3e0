# SPDX-License-Identifier: Apache-2.0
#
# CC_FLAGS([VAR], [flags]): append to VAR each flag that the compiler takes without a warning.
AC_DEFUN([CC_FLAGS], [
for cc_flag in $2; do
	CC_FLAG_TRY([$1], [$cc_flag], [CFLAGS])
done
])

# LD_FLAGS([VAR], [flags]): the same for flags of the linker.
AC_DEFUN([LD_FLAGS], [
for cc_flag in $2; do
	CC_FLAG_TRY([$1], [$cc_flag], [LDFLAGS])
done
])

# CC_FLAG_TRY([VAR], [flag], [CFLAGS | LDFLAGS])
AC_DEFUN([CC_FLAG_TRY], [
AC_MSG_CHECKING([whether the compiler takes $2])
cc_flag_saved=$$3
cc_flag_saved_werror=$ac_c_werror_flag
$3="$$3 $2"
ac_c_werror_flag=yes
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [[]])],
	[AC_MSG_RESULT([yes]); $1="$$1 $2"],
	[AC_MSG_RESULT([no])])
$3=$cc_flag_saved
ac_c_werror_flag=$cc_flag_saved_werror
])

# CC_QUIET([VAR], [warning], [code]): append -Wno-warning if the compiler gives it for this code, which is right.
AC_DEFUN([CC_QUIET], [
AC_MSG_CHECKING([whether the compiler's -W$2 is of use])
cc_flag_saved=$CFLAGS
cc_flag_saved_werror=$ac_c_werror_flag
CFLAGS="$CFLAGS -W$2"
ac_c_werror_flag=yes
AC_COMPILE_IFELSE([AC_LANG_SOURCE([$3])],
	[AC_MSG_RESULT([yes])],
	[AC_MSG_RESULT([no]); $1="$$1 -Wno-$2"])
CFLAGS=$cc_flag_saved
ac_c_werror_flag=$cc_flag_saved_werror
])
