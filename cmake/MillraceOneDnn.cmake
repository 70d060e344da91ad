# Debian's dnnl package config asks for OpenCL headers that a CPU build never uses, so the target is
# declared by hand. Its runtime is libgomp: link it and set threads with omp_set_num_threads.
find_path(MILLRACE_DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(MILLRACE_DNNL_LIBRARY dnnl REQUIRED)
add_library(millrace_dnnl INTERFACE)
add_library(millrace::dnnl ALIAS millrace_dnnl)
target_include_directories(millrace_dnnl SYSTEM INTERFACE
  $<BUILD_INTERFACE:${MILLRACE_DNNL_INCLUDE_DIR}>)
target_link_libraries(millrace_dnnl INTERFACE $<BUILD_INTERFACE:${MILLRACE_DNNL_LIBRARY}>
  $<BUILD_INTERFACE:gomp>)
