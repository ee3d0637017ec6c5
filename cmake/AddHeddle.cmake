# heddle_add_library(NAME SOURCES... [LINK libs...] [DEPENDS targets...]
#                    [EXCEPTIONS | PRECOMPILED group])
#   A static library of the compiler (lib/, dialects/), which may include LLVM and
#   MLIR headers. It is compiled without exceptions, unless it calls a library
#   that throws (EXCEPTIONS).
# heddle_add_runtime_library(NAME SOURCES... [LINK libs...])
#   A static library of the runtime, with exceptions. It must not include LLVM or
#   MLIR headers.
# heddle_add_unit_test(NAME TEST SOURCES... [LINK libs...])
#   A GoogleTest program that links libraries of the compiler; ctest runs it as TEST.
# heddle_add_tablegen(TARGET FILE.td  OUT FLAGS  OUT FLAGS ...)
#   Runs mlir-tblgen on FILE.td, once per pair.
include(CMakeParseArguments)

function(heddle_add_library NAME)
  cmake_parse_arguments(ARG "EXCEPTIONS" "PRECOMPILED" "LINK;DEPENDS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PUBLIC heddle_mlir_headers ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${NAME} ${ARG_DEPENDS})
  endif()
  add_dependencies(${NAME} heddle_tablegen)
  if(ARG_EXCEPTIONS)
    target_compile_options(${NAME} PRIVATE -fexceptions)
  elseif(ARG_PRECOMPILED)
    heddle_precompile(${NAME} ${ARG_PRECOMPILED})
  else()
    heddle_precompile(${NAME} compiler)
  endif()
endfunction()

function(heddle_add_runtime_library NAME)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${NAME} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK})
  heddle_precompile(${NAME} runtime)
endfunction()

function(heddle_add_unit_test NAME TEST)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${NAME} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PRIVATE ${ARG_LINK} GTest::gtest_main)
  heddle_precompile(${NAME} compiler)
  add_test(NAME ${TEST} COMMAND ${NAME})
endfunction()

function(heddle_add_tablegen TARGET FILE)
  set(LLVM_TARGET_DEFINITIONS ${FILE})
  set(outs ${ARGN})
  while(outs)
    list(POP_FRONT outs out flags)
    separate_arguments(flags)
    mlir_tablegen(${out} ${flags} EXTRA_INCLUDES ${CMAKE_SOURCE_DIR}
                  ${MLIR_INCLUDE_DIRS})
  endwhile()
  add_public_tablegen_target(${TARGET})
  add_dependencies(heddle_tablegen ${TARGET})
endfunction()
