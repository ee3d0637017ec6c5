// RUN: heddle-opt %s --kernels-compile --kernels-verify | FileCheck %s --check-prefix=CPU
// RUN: sed 's/x86-64/sm_80/' %s | heddle-opt --kernels-compile --kernels-verify 2>%t | FileCheck %s --check-prefix=GPU
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: heddle-opt %s --kernels-compile | sed 's/x86-64/sm_80/' | not heddle-opt --kernels-verify 2>&1 | FileCheck %s --check-prefix=OTHER

// The target of the strategy makes the code of each kernel that it supports.
// CPU: plan.kernel @rows{{.*}} hash = "{{[0-9a-f]+}}", {{.*}}object = @[[ROWS:[^,]*]],
// CPU: plan.object @[[ROWS]] "f0VMR
// CPU: plan.kernel @turned{{.*}} object = @
// REMARK: remark: no GPU generator for a result in place of an argument of which other elements are read yet: @turned
// GPU: plan.object @[[ROWS:[^ ]*]] "{{.*}}.target sm_80
// GPU: plan.kernel @rows{{.*}} object = @[[ROWS]],
// GPU: plan.kernel @turned
// GPU-NOT: object =
// OTHER: error: H0397: is no PTX for sm_80

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "x86-64"}>, config = "{}", weights = {}} {
  plan.kernel @rows(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
  plan.kernel @turned(%x: tensor<2x3x4xf32>, %ids: tensor<2x3xi32>) -> tensor<2x3x4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %y = nn.rotary %x at %ids {heads = 2 : i64, dims = 2 : i64, theta = 100.0 : f64}
        : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    plan.yield %y : tensor<2x3x4xf32>
  }
}
