//===- Passes.td - Passes of lib/Codegen/GPU ------------------*- tablegen -*-==//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_PASSES
#define HEDDLE_CODEGEN_GPU_PASSES

include "mlir/Pass/PassBase.td"

def GpuMapKernels : Pass<"gpu-map-kernels", "::mlir::ModuleOp"> {
  let summary = "Writes a gpu.func for every plan.kernel that has a mapping.";
  let description = [{
    The generator of a kernel decides how it is mapped. Row-wise kernels divide
    rows among blocks, and columns among threads. Products use mma.sync of
    tensor cores for bf16 and f16, and FMA for f32. In attention, warps have
    queries or keys.

    The gpu.func has the kernel's name and attributes with the sizes of its grid
    and blocks. It is in a `gpu.module` of its own at the end of the module; the
    plan.kernel stays. Kernels without a mapping get a remark.

    ```mlir
    plan.kernel @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} { ... }
    ```
    becomes
    ```mlir
    gpu.module @add_gpu {
      gpu.func @add(%a: memref<64xf32>, %b: memref<64xf32>, %out: memref<64xf32>)
          kernel attributes {known_block_size = ..., known_grid_size = ...} {
        ...
        gpu.return
      }
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect", "::mlir::ub::UBDialect",
    "::mlir::vector::VectorDialect"
  ];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_80\"",
           "sm_80 or sm_90, which decides how kernels are divided">
  ];
  let statistics = [
    Statistic<"numMapped", "mapped", "Kernels that got a gpu.func">,
    Statistic<"numUnmapped", "unmapped", "Kernels that have no mapping yet">
  ];
}

def GpuLowerToNvvm : Pass<"gpu-lower-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lowers a gpu.module to the nvvm and llvm dialects.";
  let description = [{
    The result calls no library: math functions are polynomials already, and
    square roots are instructions. Buffers become bare pointers. The pass has a
    lowering of its own for mma.sync of bf16, since upstream has none.

    ```mlir
    %d = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 16]}
        : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    ```
    becomes a call of the intrinsic `llvm.nvvm.mma.m16n8k16.row.col.bf16`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::cf::ControlFlowDialect"];
}

def GpuCompileKernels : Pass<"gpu-compile-kernels", "::mlir::ModuleOp"> {
  let summary = "Compiles every plan.kernel that has a mapping to PTX.";
  let description = [{
    Compiles the kernels of models whose strategy has a GPU as target; other
    models do not change. Kernels with equal bodies are compiled once. The pass
    uses all threads and the cache of kernels, as `cpu-compile-kernels` does. A
    remark for each kernel says that it has code, with the resources that ptxas
    reports if it is installed, or which generator is missing. Needs no CUDA.

    ```mlir
    plan.kernel @gelu(...) attributes {generator = #plan.generator<rows>, ...} { ... }
    ```
    becomes
    ```mlir
    plan.object @gelu_ptx "..."
    plan.kernel @gelu(...) attributes {
        generator = #plan.generator<rows>, object = @gelu_ptx, symbol = "k_gelu_7f24",
        launches = [#plan.grid_launch<"k_gelu_7f24", grid = [384, 1, 1], block = [256, 1, 1]>], ...} { ... }
    ```
  }];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
  let statistics = [
    Statistic<"numCompiled", "compiled", "Kernels that were compiled">,
    Statistic<"numCached", "cached", "Kernels that were found in the cache">
  ];
  let options = [
    Option<"cache", "cache", "std::string", "",
           "Directory of compiled kernels; empty or off for none">,
    Option<"chip", "chip", "std::string", "",
           "sm_80 or sm_90 for every kernel, whatever the strategy says">
  ];
}

#endif // HEDDLE_CODEGEN_GPU_PASSES
