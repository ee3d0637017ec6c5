// RUN: heddle-opt %s --fuse-form-kernels --fuse-verify | FileCheck %s

// States that get sums of rows wait for the kernel that reads these rows later:
// it is the same one wherever gradients are, and gives the same bits.
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  nn.state @w.grad role accumulator : tensor<8xf32>
  nn.state @b.grad role accumulator : tensor<8xf32>
  nn.state @gamma role parameter : tensor<8xf32>
  nn.state @product.grad role accumulator : tensor<8x8xf32>
  nn.bucket @grads [@w.grad, @b.grad] : tensor<128xf32>
  // CHECK-LABEL: nn.step @wait
  // CHECK: %[[L:.*]]:3 = plan.launch @layer_norm_grad_input_layer_norm_grad_weight(
  // CHECK-DAG: nn.set @b.grad, %[[L]]#2
  // CHECK-DAG: nn.set @w.grad, %[[L]]#1
  // CHECK: nn.keep %[[L]]#0 as "d"
  nn.step @wait(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>) attributes {
      kind = #nn.program<train>, phase = #nn.phase<"wait", from_step = 1>, inputs = [#nn.port<value, "g">, #nn.port<value, "x">, #nn.port<value, "m">, #nn.port<value, "s">], outputs = []} {
    %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    nn.set @b.grad, %db : tensor<8xf32>
    nn.set @w.grad, %dw : tensor<8xf32>
    %gamma = nn.get @gamma : tensor<8xf32>
    %d = nn.layer_norm_grad_input %g, %x, %gamma, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    nn.keep %d as "d" : tensor<4x8xf32>
    nn.return
  }

  // One that is read in between, here with its bucket, does not.
  // CHECK-LABEL: nn.step @read
  // CHECK: %[[S:.*]]:2 = plan.launch @layer_norm_grad_weight(
  // CHECK: nn.set @b.grad, %[[S]]#1
  // CHECK: nn.get @grads
  // CHECK: plan.launch @layer_norm_grad_input(
  nn.step @read(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>) attributes {
      kind = #nn.program<train>, phase = #nn.phase<"read", from_step = 2>, inputs = [#nn.port<value, "g">, #nn.port<value, "x">, #nn.port<value, "m">, #nn.port<value, "s">], outputs = []} {
    %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    nn.set @b.grad, %db : tensor<8xf32>
    nn.set @w.grad, %dw : tensor<8xf32>
    %both = nn.get @grads : tensor<128xf32>
    %gamma = nn.get @gamma : tensor<8xf32>
    %d = nn.layer_norm_grad_input %g, %x, %gamma, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    nn.keep %d as "d" : tensor<4x8xf32>
    nn.keep %both as "both" : tensor<128xf32>
    nn.return
  }

  // A product's gradient that goes to a state does not keep the sum of its rows
  // apart, nor does a norm's one keep the rows' gradient apart that waits for the
  // norm's weight.
  // CHECK-LABEL: nn.step @product
  // CHECK: %[[P:.*]]:2 = plan.launch @linear_grad_weight_sum_rows(
  // CHECK: nn.set @b.grad, %[[P]]#1
  // CHECK: %[[N:.*]]:2 = plan.launch @layer_norm_grad_input_layer_norm_grad_weight_1(
  // CHECK: nn.set @w.grad, %[[N]]#1
  nn.step @product(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>, %gamma: tensor<8xf32>) attributes {
      kind = #nn.program<train>, phase = #nn.phase<"product", from_step = 3>, inputs = [#nn.port<value, "g">, #nn.port<value, "x">, #nn.port<value, "m">, #nn.port<value, "s">, #nn.port<value, "gamma">], outputs = []} {
    %w = nn.linear_grad_weight %x, %g {transposed} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    nn.set @product.grad, %w : tensor<8x8xf32>
    %b = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.set @b.grad, %b : tensor<8xf32>
    %e = nn.map gelu(%g) : tensor<4x8xf32>
    nn.keep %e as "e" : tensor<4x8xf32>
    %dw, %db = nn.layer_norm_grad_weight %e, %x, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    nn.set @w.grad, %dw : tensor<8xf32>
    %there = dist.wait %gamma : tensor<8xf32>
    %d = nn.layer_norm_grad_input %e, %x, %there, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    nn.keep %d as "d" : tensor<4x8xf32>
    nn.return
  }
}
