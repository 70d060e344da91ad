# millrace_library(NAME [COLD] SOURCES a.cc ... [PUBLIC_HEADERS a.h ...] DEPS public::deps ...
#                  PRIVATE_DEPS deps ...)
#   makes the static library millrace_NAME (alias millrace::NAME) of one folder. A COLD one is
#   not optimised with a sanitizer (millrace_cold). Users include the PUBLIC_HEADERS, as
#   "millrace/NAME/a.h": they are installed, and include no header of ours that is not
#   (tests/house/check_tree.py).
# millrace_test(FILE.cc [NO_THREADS] [OPTIMISE] [FIXTURE header] DEPS ... [LABELS ...]
#               [TIMEOUT seconds] [COST seconds])
#   makes one GoogleTest program; its name is <folder>_<file>, its working directory the build tree.
#   With NO_THREADS it may start none: ThreadSanitizer would see nothing, and does without it. One
#   that computes much is compiled with OPTIMISE. A FIXTURE, a header of the folder that takes long
#   to parse, is precompiled for the tests that name it. The COST of a long test is about what it
#   takes with AddressSanitizer: ctest -j begins with the dearest, so that none is left alone at the
#   end.

# g++ 12 takes some uses of its own std::string for overlapping or too long (GCC's bug 105651).
set(MILLRACE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>"
    # nvcc passes on what it does not know, and has a -Werror of its own.
    $<$<AND:$<BOOL:${MILLRACE_WERROR}>,$<NOT:$<COMPILE_LANGUAGE:CUDA>>>:-Werror>)
# Fused and separate kernels must agree to the bit, so no contraction (docs/semantics.md).
set(MILLRACE_FLAGS -ffp-contract=off)

# Of protobuf's generated sources, which are not ours to warn about; a sanitizer takes four times as
# long to optimise them.
set(MILLRACE_GENERATED_FLAGS -w $<$<CONFIG:None>:-O0>)

# Headers that nearly every file includes: parsing them takes most of the time of a small file. They
# are compiled once for the libraries, once for the program and once for the tests. Files include
# what they use all the same (tests/house/check_includes.py).
set(MILLRACE_PRECOMPILED <algorithm> <atomic> <chrono> <cstdint> <cstring> <deque> <functional>
    <map> <memory> <mutex> <condition_variable> <optional> <span> <string> <string_view>
    <unordered_map> <utility> <vector> <absl/status/status.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h>)

# Compiles `target` with these headers and those named. Targets of one `kind` have the same flags,
# and share what is compiled for the first of them.
function(millrace_precompile target kind)
  if(NOT MILLRACE_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY MILLRACE_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${MILLRACE_PRECOMPILED} ${ARGN})
    set_property(GLOBAL PROPERTY MILLRACE_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

function(millrace_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)  # whoever includes our headers needs it too
  target_compile_options(${target} PRIVATE ${MILLRACE_WARNINGS} ${MILLRACE_FLAGS})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# With a sanitizer, to optimise what runs seldom takes longer than it saves: some sources, which do
# much by templates, or a whole target.
function(millrace_cold_sources)
  if(CMAKE_BUILD_TYPE STREQUAL None)
    set_source_files_properties(${ARGN} PROPERTIES
      COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

function(millrace_cold target)
  if(CMAKE_BUILD_TYPE STREQUAL None)
    target_compile_options(${target} PRIVATE -O0)
    millrace_precompile(${target} COLD_LIBRARIES)
  else()
    millrace_precompile(${target} LIBRARIES)
  endif()
endfunction()

function(millrace_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;PUBLIC_HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(millrace_${name} STATIC ${ARG_SOURCES})
  add_library(millrace::${name} ALIAS millrace_${name})
  set_target_properties(millrace_${name} PROPERTIES EXPORT_NAME ${name})
  millrace_target_defaults(millrace_${name})
  target_link_libraries(millrace_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  if(ARG_COLD)
    millrace_cold(millrace_${name})
  else()
    millrace_precompile(millrace_${name} LIBRARIES)
  endif()
  set_property(GLOBAL APPEND PROPERTY MILLRACE_INSTALL_TARGETS millrace_${name})
  list(TRANSFORM ARG_PUBLIC_HEADERS PREPEND ${name}/)
  set_property(GLOBAL APPEND PROPERTY MILLRACE_PUBLIC_HEADERS ${ARG_PUBLIC_HEADERS})
  # A project that builds Millrace as a part of itself includes as one that has it installed.
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_include_directories(millrace_${name} SYSTEM INTERFACE
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
    add_dependencies(millrace_${name} millrace_public_headers)
  endif()
endfunction()

# Gives these sources CUDA's headers. The others are compiled as they are without CUDA, so that who
# builds both (with ccache) compiles them once.
function(millrace_use_cuda)
  set_source_files_properties(${ARGN} PROPERTIES INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
endfunction()

# With a sanitizer: UBSan looks at the libraries alone, and its reports and others name their lines
# alone. For those of the tests' own matchers a third of the time of compiling would be spent.
set(MILLRACE_TEST_FLAGS $<$<CONFIG:None>:-g0> $<$<CONFIG:None>:-fno-sanitize=undefined>)

# For tests: most run for less time than their matchers take to optimise, three times less with a
# sanitizer. `fixture`, which may be empty: a header to precompile with the others.
function(millrace_unoptimised target fixture)
  target_compile_options(${target} PRIVATE -O0 ${MILLRACE_TEST_FLAGS})
  millrace_precompile(${target} TESTS${fixture} <gmock/gmock.h> <random> <thread> ${fixture})
endfunction()

function(millrace_test file)
  cmake_parse_arguments(ARG "NO_THREADS;OPTIMISE" "FIXTURE;TIMEOUT;COST" "DEPS;LABELS" ${ARGN})
  if(ARG_NO_THREADS AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    return()
  endif()
  get_filename_component(stem ${file} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(target ${folder}_${stem})
  add_executable(${target} ${file})
  millrace_target_defaults(${target})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} millrace_messages GTest::gmock_main)
  if(ARG_NO_THREADS AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # which has a pthread_create too
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:millrace_no_threads>)
  endif()
  if(ARG_OPTIMISE)
    target_compile_options(${target} PRIVATE -O1 ${MILLRACE_TEST_FLAGS})
  else()
    millrace_unoptimised(${target} "${ARG_FIXTURE}")
  endif()
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
  add_test(NAME ${target} COMMAND ${target})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 400)  # a guard against hangs: sanitizers make a test ten times slower
  endif()
  set(environment MILLRACE_SOURCE_DIR=${PROJECT_SOURCE_DIR}
      MILLRACE_BIN=${PROJECT_BINARY_DIR}/bin/millrace)
  set_tests_properties(${target} PROPERTIES LABELS "${folder};${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${environment}")
  if(ARG_COST)
    set_tests_properties(${target} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()
