# `cmake --install` puts the embeddable libraries, their public headers, a package for
# find_package(Millrace) and one for pkg-config below the prefix, and the `millrace` program where
# it was built.
include(CMakePackageConfigHelpers)

# The folders that a program may embed; the trainer is used through the program.
set(embeddable base readers augment pipeline collectives)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)

get_property(targets GLOBAL PROPERTY MILLRACE_INSTALL_TARGETS)
foreach(folder ${embeddable})
  if(millrace_${folder} IN_LIST targets)
    install(TARGETS millrace_${folder} EXPORT MillraceTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

# The library for C, its headers, and its pkg-config file.
install(TARGETS millrace_c EXPORT MillraceTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/capi/millrace.h ${PROJECT_SOURCE_DIR}/capi/millrace_device.h
  ${PROJECT_SOURCE_DIR}/capi/millrace_collectives.h
  ${PROJECT_SOURCE_DIR}/capi/millrace_diagnosis.h ${PROJECT_SOURCE_DIR}/capi/millrace_ops.h
  ${PROJECT_SOURCE_DIR}/capi/millrace_options.h ${PROJECT_SOURCE_DIR}/capi/millrace_push.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/capi/millrace.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The public headers, as users include them, lie in the build tree too.
get_property(headers GLOBAL PROPERTY MILLRACE_PUBLIC_HEADERS)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
set(stamp ${PROJECT_BINARY_DIR}/include/public_headers)
set(script ${PROJECT_SOURCE_DIR}/cmake/MillracePublicHeaders.cmake)
add_custom_command(OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PROJECT_BINARY_DIR}/include
          "-DHEADERS=${headers}" -P ${script}
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  DEPENDS ${sources} ${script} VERBATIM)
add_custom_target(millrace_public_headers ALL DEPENDS ${stamp})
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_BINARY_DIR}/include/millrace/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace/${folder})
endforeach()
if(TARGET millrace)
  install(TARGETS millrace RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT MillraceTargets NAMESPACE millrace:: DESTINATION ${cmake_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MillraceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/MillraceConfig.cmake INSTALL_DESTINATION ${cmake_folder})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MillraceConfig.cmake
  ${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake DESTINATION ${cmake_folder})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/millrace)
