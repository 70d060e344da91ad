# millrace_library(NAME [COLD] SOURCES a.cc ... [PUBLIC_HEADERS a.h ...] DEPS public::deps ...
#                  PRIVATE_DEPS deps ...)
#   makes the static library millrace_NAME (alias millrace::NAME) of one folder. A COLD one is
#   not optimised with a sanitizer (millrace_cold). Users include the PUBLIC_HEADERS, as
#   "millrace/NAME/a.h": they are installed, and include no header of ours that is not
#   (tests/house/check_tree.py).
# millrace_test_room(ROOM [NO_THREADS ALL|files...] [OPTIMISE files...] [APART files...]
#                    [OWN files...] [FIXTURE header] DEPS ... [LABELS ...] [SHARDS n]
#                    [COST seconds] [TIMEOUT seconds] [WAITS])
#   makes one GoogleTest program, <folder>_<room>, of all ROOM/*_test.cc of a folder of tests; room
#   "." is the folder's root, whose program is <folder>_test, and that of a room in a room,
#   "room/sub", is <folder>_room_sub. Files are compiled several at a time;
#   those APART are not, because a helper's name clashes. Files with NO_THREADS may start no thread:
#   ThreadSanitizer would see nothing, and does without them. They make a second program,
#   ..._no_threads, unless ALL of them do; files that compute much and are compiled with OPTIMISE a
#   third, ..._optimised. OWN files are left out: each has a millrace_test.
#   The program runs as SHARDS entries of ctest. Of one entry the COST is about the seconds that it
#   takes with AddressSanitizer: ctest -j begins with the dearest, so that none is left alone at the
#   end. One that WAITS most of its time counts half of one that computes.
# millrace_test(FILE.cc [NO_THREADS] [OPTIMISE] ...)
#   makes a program of one file, <folder>_<file>: for a test that looks at its own process, or that
#   needs other definitions or sources.
#   The working directory is the build tree. A FIXTURE, a header that takes long to parse, is
#   precompiled for the tests that name it.

# g++ 12 takes some uses of its own std::string for overlapping or too long (GCC's bug 105651).
# It also takes an anonymous namespace of a source that another includes for one of a header.
set(MILLRACE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>"
    "$<$<AND:$<BOOL:${MILLRACE_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>"
    # nvcc passes on what it does not know, and has a -Werror of its own.
    $<$<AND:$<BOOL:${MILLRACE_WERROR}>,$<NOT:$<COMPILE_LANGUAGE:CUDA>>>:-Werror>)
# Fused and separate kernels must agree to the bit, so no contraction (docs/semantics.md). g++
# compiles faster where it looks for garbage only beyond 600 MB.
set(MILLRACE_FLAGS -ffp-contract=off
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=600000>")

# What runs seldom is small in a library that has all of its dependencies inside.
set(MILLRACE_SMALL_FLAGS)
if(MILLRACE_SELF_CONTAINED)
  set(MILLRACE_SMALL_FLAGS -Os)
endif()

# Of protobuf's generated sources, which are not ours to warn about; a sanitizer takes four times as
# long to optimise them.
set(MILLRACE_GENERATED_FLAGS -w $<$<CONFIG:None>:-O0> ${MILLRACE_SMALL_FLAGS})

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
  target_compile_features(${target} PUBLIC cxx_std_20)  # includers of our headers need it too
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

# A cold target that MILLRACE_SMALL_FLAGS make small.
function(millrace_small target)
  if(MILLRACE_SMALL_FLAGS)
    target_compile_options(${target} PRIVATE ${MILLRACE_SMALL_FLAGS})
    millrace_precompile(${target} SMALL_LIBRARIES)
  else()
    millrace_cold(${target})
  endif()
endfunction()

# Sets `united` to sources that include `files`, at most six each: the second processor gets a part,
# and a change does not compile all. CMake's own UNITY_BUILD includes by absolute paths, by which
# another clone would find nothing in ccache.
function(millrace_unite united name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE folder)
  set(files ${ARGN})
  set(number 0)
  set(sources)
  while(files)
    list(SUBLIST files 0 6 batch)
    list(REMOVE_ITEM files ${batch})
    list(TRANSFORM batch REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    string(JOIN "" text ${batch})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
    list(APPEND sources ${source})
    math(EXPR number "${number} + 1")
  endwhile()
  set(${united} ${sources} PARENT_SCOPE)
endfunction()

# With MILLRACE_UNITY, replaces the sources in the list `all` by some that include those of a room.
# Those that have flags or includes of their own stay apart.
function(millrace_unite_rooms all)
  if(NOT MILLRACE_UNITY)
    return()
  endif()
  set(kept)
  set(rooms)
  foreach(source ${${all}})
    set(own_flags FALSE)
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
      get_source_file_property(value ${source} ${property})
      if(value)
        set(own_flags TRUE)
      endif()
    endforeach()
    cmake_path(GET source PARENT_PATH room)
    if(own_flags OR NOT source MATCHES "^[^/].*[.]cc$")
      list(APPEND kept ${source})
    else()
      string(REPLACE / _ room "room_${room}")
      list(APPEND rooms ${room})
      list(APPEND files_of_${room} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room ${rooms})
    millrace_unite(united ${room} ${files_of_${room}})
    list(APPEND kept ${united})
  endforeach()
  set(${all} ${kept} PARENT_SCOPE)
endfunction()

function(millrace_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;PUBLIC_HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  millrace_unite_rooms(ARG_SOURCES)
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

# Gives these sources CUDA's headers. The others are compiled as they are without CUDA, so that a
# user who builds both (with ccache) compiles them once.
function(millrace_use_cuda)
  set_source_files_properties(${ARGN} PROPERTIES INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
endfunction()

# With a sanitizer: UBSan looks at the libraries alone, and its reports and others name their lines
# alone. For those of the tests' own matchers a third of the time of compiling would be spent.
set(MILLRACE_TEST_FLAGS $<$<CONFIG:None>:-g0> $<$<CONFIG:None>:-fno-sanitize=undefined>)

# For tests: most run for less time than their matchers take to optimise, three times less with a
# sanitizer. `fixture`, which may be empty: a header to precompile with the others, by its path from
# the root (in brackets CMake leaves it so, and other clones find what ccache has).
function(millrace_unoptimised target fixture)
  target_compile_options(${target} PRIVATE -O0 ${MILLRACE_TEST_FLAGS})
  if(fixture)
    set(precompiled_fixture <${fixture}>)
  endif()
  millrace_precompile(${target} TESTS${fixture} <gmock/gmock.h> <random> <thread>
    ${precompiled_fixture})
endfunction()

# Makes a program of tests (see the head of this file).
function(millrace_test_program target)
  cmake_parse_arguments(ARG "NO_THREADS;OPTIMISE;WAITS" "FIXTURE;TIMEOUT;COST;SHARDS"
    "SOURCES;DEPS;LABELS" ${ARGN})
  if(ARG_NO_THREADS AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    return()
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_executable(${target} ${ARG_SOURCES})
  millrace_target_defaults(${target})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} millrace_messages GTest::gmock_main)
  target_link_options(${target} PRIVATE ${MILLRACE_TEST_LINK_OPTIONS})
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
  millrace_add_shards(${target} "${ARG_SHARDS}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 400)  # a guard against hangs: sanitizers make a test ten times slower
  endif()
  set_tests_properties(${entries} PROPERTIES LABELS "${folder};${ARG_LABELS}"
    TIMEOUT ${ARG_TIMEOUT})
  if(NOT ARG_WAITS)
    set_tests_properties(${entries} PROPERTIES PROCESSORS 2)
  endif()
  if(ARG_COST)
    set_tests_properties(${entries} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()

# Adds the entries of a test program to ctest, and sets `entries` to their names.
function(millrace_add_shards target shards)
  if(NOT shards)
    set(shards 1)
  endif()
  set(environment MILLRACE_SOURCE_DIR=${PROJECT_SOURCE_DIR}
      MILLRACE_BIN=${PROJECT_BINARY_DIR}/bin/millrace)
  foreach(shard RANGE 1 ${shards})
    set(entry ${target})
    set(shard_environment)
    if(shards GREATER 1)
      set(entry ${target}_${shard}of${shards})
      math(EXPR index "${shard} - 1")
      set(shard_environment GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${entry} COMMAND ${target})
    set_tests_properties(${entry} PROPERTIES ENVIRONMENT "${environment};${shard_environment}")
    list(APPEND entries ${entry})
  endforeach()
  set(entries ${entries} PARENT_SCOPE)
endfunction()

function(millrace_test file)
  get_filename_component(stem ${file} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  millrace_test_program(${folder}_${stem} SOURCES ${file} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_TEST_FILES ${CMAKE_CURRENT_SOURCE_DIR}/${file})
endfunction()

# Takes the files `names` of a room out of the list named `all`, and sets `taken` to their paths.
# One that is not there is an error.
function(millrace_take_files all room names taken)
  set(paths)
  foreach(name ${names})
    cmake_path(SET path NORMALIZE ${room}/${name})
    if(NOT path IN_LIST ${all})
      message(FATAL_ERROR
        "tests of ${CMAKE_CURRENT_SOURCE_DIR}/${room}: ${name} is not there, or named twice")
    endif()
    list(REMOVE_ITEM ${all} ${path})
    list(APPEND paths ${path})
  endforeach()
  set(${all} ${${all}} PARENT_SCOPE)
  set(${taken} ${paths} PARENT_SCOPE)
endfunction()

function(millrace_test_room room)
  set(passed TIMEOUT COST SHARDS DEPS LABELS)
  cmake_parse_arguments(ARG "WAITS" "FIXTURE" "NO_THREADS;OPTIMISE;APART;OWN;${passed}" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(REPLACE / _ target ${folder}_${room})
  if(room STREQUAL .)
    set(target ${folder}_test)
  endif()
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${room}/*_test.cc)
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  set_property(GLOBAL APPEND PROPERTY MILLRACE_TEST_FILES ${paths})
  millrace_take_files(files ${room} "${ARG_OWN}" own)
  set(rest ${files})
  millrace_take_files(rest ${room} "${ARG_APART}" apart)
  set(fixture)
  if(ARG_FIXTURE)
    set(fixture FIXTURE ${ARG_FIXTURE})
  endif()
  set(arguments)
  foreach(keyword ${passed})
    if(ARG_${keyword})
      list(APPEND arguments ${keyword} ${ARG_${keyword}})
    endif()
  endforeach()
  if(ARG_WAITS)
    list(APPEND arguments WAITS)
  endif()
  foreach(kind NO_THREADS OPTIMISE)
    if("${ARG_${kind}}" STREQUAL ALL)
      list(APPEND arguments ${kind})
      set(ARG_${kind})
    endif()
  endforeach()
  millrace_take_files(files ${room} "${ARG_NO_THREADS}" still)
  millrace_take_files(files ${room} "${ARG_OPTIMISE}" optimised)
  millrace_unity_test(${target} "${files}" "${apart}" ${fixture} ${arguments})
  millrace_unity_test(${target}_no_threads "${still}" "${apart}" NO_THREADS ${arguments})
  millrace_unity_test(${target}_optimised "${optimised}" "${apart}" OPTIMISE ${arguments})
endfunction()

# Makes a program of `files`, if there are any, compiled a few at a time but for those `apart`.
function(millrace_unity_test target files apart)
  set(rest ${files})
  set(alone)
  foreach(file ${files})
    if(file IN_LIST apart)
      list(APPEND alone ${file})
      list(REMOVE_ITEM rest ${file})
    endif()
  endforeach()
  millrace_unite(united ${target} ${rest})
  if(united OR alone)
    millrace_test_program(${target} SOURCES ${united} ${alone} ${ARGN})
  endif()
endfunction()

# After all rooms: a test file that belongs to no program is an error.
function(millrace_check_test_files)
  get_property(named GLOBAL PROPERTY MILLRACE_TEST_FILES)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  list(REMOVE_ITEM files ${named})
  if(files AND MILLRACE_TRAINER)
    message(FATAL_ERROR "these tests are in no program (millrace_test_room): ${files}")
  endif()
endfunction()
