# Finds Debian's LLVM/MLIR 19 and takes its settings.

find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/lld)
message(STATUS "MLIR in ${MLIR_DIR}, LLVM ${LLVM_PACKAGE_VERSION}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(heddle_mlir_headers INTERFACE)
target_include_directories(heddle_mlir_headers SYSTEM INTERFACE
                           ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(_defs NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(heddle_mlir_headers INTERFACE ${_defs} -fno-exceptions)
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(heddle_mlir_headers INTERFACE -fno-rtti)
endif()
# One shared library each: never mixed with the static archives.
target_link_libraries(heddle_mlir_headers INTERFACE MLIR LLVM)

# Every generated header: libraries of the compiler depend on all of them.
add_custom_target(heddle_tablegen)
