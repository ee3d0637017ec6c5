# heddle_add_library(NAME SOURCES... [LINK libs...] [DEPENDS targets...])
#   A static library of the compiler (lib/, dialects/): LLVM and MLIR headers,
#   no exceptions.
# heddle_add_runtime_library(NAME SOURCES... [LINK libs...])
#   A static library of the runtime: exceptions, no LLVM or MLIR header.
# heddle_add_tablegen(TARGET FILE.td  OUT FLAGS  OUT FLAGS ...)
#   Runs mlir-tblgen on FILE.td, once per pair.
include(CMakeParseArguments)

function(heddle_add_library NAME)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PUBLIC heddle_mlir_headers ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${NAME} ${ARG_DEPENDS})
  endif()
  add_dependencies(${NAME} heddle_tablegen)
endfunction()

function(heddle_add_runtime_library NAME)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${NAME} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK})
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
