# heddle_add_precompiled(GROUP HEADERS... [LINK libs...] [DEPENDS targets...])
#   Precompiles the headers that the libraries of a group share.
# heddle_precompile(TARGET GROUP)
#   Compiles a target's files with them, since most of a file's compile time is
#   spent reading headers. Only for clang, whose precompiled headers are the
#   smallest and fastest to load. HEDDLE_PRECOMPILED_SUFFIX, if a
#   folder sets it, is appended to GROUP: a precompiled header has one level of
#   optimization.

# Precompiled headers contain paths of their checkout, so ccache must not copy them
# to another one. They contain no time stamps: equal headers give equal bytes, so
# ccache finds the objects that were compiled with them.
function(heddle_add_precompiled GROUP)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND "SHELL:-include ")
  set(object heddle_precompiled_${GROUP}_object)
  set_source_files_properties(/dev/null PROPERTIES LANGUAGE CXX)
  add_library(${object} OBJECT /dev/null)
  set_target_properties(${object} PROPERTIES CXX_COMPILER_LAUNCHER "")
  target_link_libraries(${object} PRIVATE ${ARG_LINK})
  target_compile_options(${object} PRIVATE
    ${ARG_UNPARSED_ARGUMENTS} -fpch-instantiate-templates
    "SHELL:-Xclang -fno-pch-timestamp" "SHELL:-x c++-header")
  add_custom_target(heddle_precompiled_${GROUP}
                    DEPENDS $<TARGET_OBJECTS:${object}>)
  if(ARG_DEPENDS)
    add_dependencies(${object} ${ARG_DEPENDS})
  endif()
endfunction()

function(heddle_precompile TARGET GROUP)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  string(APPEND GROUP "${HEDDLE_PRECOMPILED_SUFFIX}")
  add_dependencies(${TARGET} heddle_precompiled_${GROUP})
  target_compile_options(${TARGET} PRIVATE
    -fPIC "SHELL:-Xclang -fno-pch-timestamp"
    "SHELL:-include-pch $<TARGET_OBJECTS:heddle_precompiled_${GROUP}_object>")
endfunction()

# For runtime/, and for libraries that read the user's files.
set(HEDDLE_RUNTIME_HEADERS
  algorithm cerrno chrono cmath cstring filesystem fstream functional iostream
  map memory optional set sstream string thread unordered_map vector
  nlohmann/json.hpp)
heddle_add_precompiled(runtime ${HEDDLE_RUNTIME_HEADERS})
