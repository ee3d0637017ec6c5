// RUN: heddle-opt %s --split-input-file --memory-plan --memory-verify | FileCheck %s

// What is on file stands role by role, each at pages. A parameter that
// computation reads a copy of is with the optimizer, and its copy with the
// parameters.

// CHECK-LABEL: plan.program @roles
// CHECK-SAME: files = {activations = 4096 : i64, gradients = 8192 : i64, optimizer = 16384 : i64, parameters = 8192 : i64}
// CHECK-SAME: owners = {
// CHECK-SAME: persistent_bytes = #plan.bytes<device 4096, file 36864>
// CHECK: plan.state @here at 0 : tensor<3xf32>
// CHECK: plan.state @w at 0 in file : tensor<30x50xf32>
// CHECK: plan.state @w.exp_avg at 8192 in file : tensor<30x50xf32>
// CHECK: plan.state @w.bf16 at 16384 in file : tensor<30x50xbf16>
// CHECK: plan.state @v at 20480 in file : tensor<3xf32>
// CHECK: plan.state @w.grad at 24576 in file : tensor<30x50xf32>
// CHECK: plan.state @saved at 32768 in file : tensor<64xf32>
nn.model @roles family "gpt2" phase "kernels" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @saved role saved : tensor<64xf32> {memory = #nn<memory file>}
  nn.state @w.grad role gradient : tensor<30x50xf32> {memory = #nn<memory file>, parameter = "w"}
  nn.state @w.bf16 role derived : tensor<30x50xbf16> {memory = #nn<memory file>, parameter = "w"}
  nn.state @w role parameter : tensor<30x50xf32> {memory = #nn<memory file>, trainable}
  nn.state @here role scalar : tensor<3xf32>
  nn.state @v role parameter : tensor<3xf32> {memory = #nn<memory file>, trainable}
  nn.state @w.exp_avg role optimizer : tensor<30x50xf32> {memory = #nn<memory file>, parameter = "w"}
}

// -----

// Without anything on file there are no files.
// CHECK-LABEL: plan.program @none
// CHECK-NOT: files =
// CHECK: plan.state @here at 0 : tensor<3xf32>
nn.model @none family "gpt2" phase "kernels" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @here role scalar : tensor<3xf32>
}
