# `cmake --install` puts the embeddable libraries, their public headers and a package for
# find_package(Millrace) below the prefix, and the `millrace` program where it was built.
include(CMakePackageConfigHelpers)

# The folders that a program may embed; the trainer is used through the program.
set(embeddable base readers augment pipeline collectives)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)

get_property(targets GLOBAL PROPERTY MILLRACE_INSTALL_TARGETS)
foreach(folder ${embeddable})
  if(NOT millrace_${folder} IN_LIST targets)
    continue()
  endif()
  install(TARGETS millrace_${folder} EXPORT MillraceTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  list(FILTER headers EXCLUDE REGEX "internal")
  # The trainer's alone: it takes messages of protobuf.
  list(FILTER headers EXCLUDE REGEX "^pipeline/text_proto\\.h$")
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace/${folder})
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
