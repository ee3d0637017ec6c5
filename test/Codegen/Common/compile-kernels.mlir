// RUN: heddle-opt %s --kernels-compile --kernels-verify | FileCheck %s --check-prefix=CPU
// RUN: sed 's/x86-64/sm_80/' %s | heddle-opt --kernels-compile --kernels-verify 2>%t | FileCheck %s --check-prefix=GPU
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: heddle-opt %s --kernels-compile | sed 's/x86-64/sm_80/' | not heddle-opt --kernels-verify 2>&1 | FileCheck %s --check-prefix=OTHER

// The target of the strategy makes the code of each kernel that it supports.
// CPU: plan.kernel @rows{{.*}} hash = "{{[0-9a-f]+}}", {{.*}}object = @[[ROWS:[^,]*]],
// CPU: plan.object @[[ROWS]] "f0VMR
// CPU: plan.kernel @columns{{.*}} object = @
// REMARK: remark: no GPU generator for "columns" kernels yet: @columns
// GPU: plan.object @[[ROWS:[^ ]*]] "{{.*}}.target sm_80
// GPU: plan.kernel @rows{{.*}} object = @[[ROWS]],
// GPU: plan.kernel @columns
// GPU-NOT: object =
// OTHER: error: H0397: is no PTX for sm_80

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "x86-64"}>, config = "{}", weights = {}} {
  plan.kernel @rows(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
  plan.kernel @columns(%x: tensor<8x64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
    %y = nn.sum_rows %x : (tensor<8x64xf32>) -> tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
}
