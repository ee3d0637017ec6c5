// RUN: heddle-opt %s --kernels-compile --kernels-verify | FileCheck %s --check-prefix=CPU
// RUN: sed 's/x86-64/sm_80/' %s | heddle-opt --kernels-compile --kernels-verify 2>%t | FileCheck %s --check-prefix=GPU
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// RUN: heddle-opt %s --kernels-compile | sed 's/x86-64/sm_80/' | not heddle-opt --kernels-verify 2>&1 | FileCheck %s --check-prefix=OTHER

// The target of the strategy makes the code of each kernel that it supports.
// CPU: plan.kernel @rows{{.*}} hash = "{{[0-9a-f]+}}", {{.*}}object = @[[ROWS:[^,]*]],
// CPU: plan.object @[[ROWS]] "f0VMR
// CPU: plan.kernel @wide{{.*}} object = @
// REMARK: remark: no GPU generator for attention of heads wider than 256 yet: @wide
// GPU: plan.object @[[ROWS:[^ ]*]] "{{.*}}.target sm_80
// GPU: plan.kernel @rows{{.*}} object = @[[ROWS]],
// GPU: plan.kernel @wide
// GPU-NOT: object =
// OTHER: error: H0397: is no PTX for sm_80

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "x86-64"}>, config = "{}", weights = {}} {
  plan.kernel @rows(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
  plan.kernel @wide(%x: tensor<1x4x780xf32>) -> tensor<1x4x260xf32>
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
    %y, %lse = nn.attention %x {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<full>}
        : (tensor<1x4x780xf32>) -> (tensor<1x4x260xf32>, tensor<1x1x4xf32>)
    plan.yield %y : tensor<1x4x260xf32>
  }
}
