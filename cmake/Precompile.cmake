# heddle_precompile(TARGET...)
#   Compiles these targets against MLIR's headers, precompiled: reading them is
#   nearly all of a file's compile time. For clang alone, whose precompiled
#   headers are the smallest and fastest to load.

set(HEDDLE_PRECOMPILED_HEADERS
  llvm/ADT/MapVector.h
  llvm/ADT/SetVector.h
  llvm/ADT/StringMap.h
  llvm/ADT/StringSet.h
  llvm/ADT/TypeSwitch.h
  llvm/Support/FormatVariadic.h
  mlir/Dialect/Affine/IR/AffineOps.h
  mlir/Dialect/Arith/IR/Arith.h
  mlir/Dialect/Func/IR/FuncOps.h
  mlir/Dialect/GPU/IR/GPUDialect.h
  mlir/Dialect/LLVMIR/LLVMDialect.h
  mlir/Dialect/Linalg/IR/Linalg.h
  mlir/Dialect/Math/IR/Math.h
  mlir/Dialect/MemRef/IR/MemRef.h
  mlir/Dialect/NVGPU/IR/NVGPUDialect.h
  mlir/Dialect/SCF/IR/SCF.h
  mlir/Dialect/Tensor/IR/Tensor.h
  mlir/Dialect/Vector/IR/VectorOps.h
  mlir/IR/Builders.h
  mlir/IR/BuiltinOps.h
  mlir/IR/DialectImplementation.h
  mlir/IR/IRMapping.h
  mlir/IR/OpImplementation.h
  mlir/IR/SymbolTable.h
  mlir/Interfaces/FunctionInterfaces.h
  mlir/Interfaces/InferTypeOpInterface.h
  mlir/Parser/Parser.h
  mlir/Pass/PassManager.h
  mlir/Transforms/GreedyPatternRewriteDriver.h)

# An empty file and the headers as arguments: so no path of this checkout is in
# the result, and ccache finds it again from another. Without time stamps for the
# same reason.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(TRANSFORM HEDDLE_PRECOMPILED_HEADERS PREPEND "SHELL:-include "
       OUTPUT_VARIABLE includes)
  set_source_files_properties(/dev/null PROPERTIES LANGUAGE CXX)
  add_library(heddle_precompiled_object OBJECT /dev/null)
  target_link_libraries(heddle_precompiled_object PRIVATE heddle_mlir_headers)
  target_compile_options(heddle_precompiled_object PRIVATE
    ${includes} -fpch-instantiate-templates "SHELL:-Xclang -fno-pch-timestamp"
    "SHELL:-x c++-header")
  add_custom_target(heddle_precompiled
                    DEPENDS $<TARGET_OBJECTS:heddle_precompiled_object>)
endif()

function(heddle_precompile)
  if(TARGET heddle_precompiled)
    foreach(target ${ARGN})
      add_dependencies(${target} heddle_precompiled)
      target_compile_options(${target} PRIVATE
        -fPIC "SHELL:-Xclang -fno-pch-timestamp"
        "SHELL:-include-pch $<TARGET_OBJECTS:heddle_precompiled_object>")
    endforeach()
  endif()
endfunction()
