# Finds Debian's LLVM/MLIR 19 and takes its settings.

find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/lld)
message(STATUS "MLIR in ${MLIR_DIR}, LLVM ${LLVM_PACKAGE_VERSION}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# TableGen names the files in its depfiles relative to the top of the build.
# With the new policy, CMake takes them as relative to the current directory, and
# Ninja then runs TableGen in every build.
cmake_policy(SET CMP0116 OLD)
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
# Links the shared libraries of LLVM and MLIR, which must not be mixed with the
# static archives.
target_link_libraries(heddle_mlir_headers INTERFACE MLIR LLVM)

# Generates all headers from .td files. All libraries of the compiler depend on it.
add_custom_target(heddle_tablegen)

# For dialects/: headers that definitions of operations need.
set(HEDDLE_IR_HEADERS
  llvm/ADT/MapVector.h
  llvm/ADT/SetVector.h
  llvm/ADT/StringMap.h
  llvm/ADT/StringSet.h
  llvm/ADT/TypeSwitch.h
  mlir/Bytecode/BytecodeOpInterface.h
  mlir/Dialect/Arith/IR/Arith.h
  mlir/Dialect/Tensor/IR/Tensor.h
  mlir/IR/Builders.h
  mlir/IR/BuiltinOps.h
  mlir/IR/DialectImplementation.h
  mlir/IR/IRMapping.h
  mlir/IR/OpImplementation.h
  mlir/IR/SymbolTable.h
  mlir/Interfaces/FunctionInterfaces.h
  mlir/Interfaces/InferTypeOpInterface.h)
heddle_add_precompiled(dialects ${HEDDLE_IR_HEADERS} LINK heddle_mlir_headers)

# For lib/, tools/ and the unit tests of the compiler.
set(HEDDLE_COMPILER_HEADERS ${HEDDLE_IR_HEADERS}
  mlir/Dialect/Affine/IR/AffineOps.h
  mlir/Dialect/Func/IR/FuncOps.h
  mlir/Dialect/GPU/IR/GPUDialect.h
  mlir/Dialect/LLVMIR/LLVMDialect.h
  mlir/Dialect/Linalg/IR/Linalg.h
  mlir/Dialect/Math/IR/Math.h
  mlir/Dialect/MemRef/IR/MemRef.h
  mlir/Dialect/NVGPU/IR/NVGPUDialect.h
  mlir/Dialect/SCF/IR/SCF.h
  mlir/Dialect/Vector/IR/VectorOps.h
  mlir/Parser/Parser.h
  mlir/Pass/PassManager.h
  mlir/Transforms/GreedyPatternRewriteDriver.h
  dialects/Pipe/PipeDialect.h
  dialects/Plan/PlanDialect.h)
heddle_add_precompiled(compiler ${HEDDLE_COMPILER_HEADERS}
  LINK heddle_mlir_headers DEPENDS heddle_tablegen)
