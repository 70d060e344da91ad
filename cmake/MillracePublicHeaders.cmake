# Copies the headers that users include, with "pipeline/plan.h" in their includes made
# "millrace/pipeline/plan.h", which is how users write it:
#
#   cmake -DSOURCE=... -DOUTPUT=... -DHEADERS="base/dtype.h;..." -P MillracePublicHeaders.cmake
#
# OUTPUT/millrace/base/dtype.h is written only if it changes.
foreach(header ${HEADERS})
  file(READ ${SOURCE}/${header} text)
  string(REGEX REPLACE
    "(\n#include \")(base|readers|augment|pipeline|collectives)/" "\\1millrace/\\2/" text "${text}")
  set(present)
  if(EXISTS ${OUTPUT}/millrace/${header})
    file(READ ${OUTPUT}/millrace/${header} present)
  endif()
  if(NOT present STREQUAL text)
    file(WRITE ${OUTPUT}/millrace/${header} "${text}")
  endif()
endforeach()
