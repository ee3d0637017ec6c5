// RUN: heddle-opt %s --memory-plan --memory-verify | FileCheck %s

// Steps find what others left in these states, as in those of no role.
// RUN: heddle-opt %s --memory-plan | sed 's/role = #nn<role accumulator>/any/' | heddle-opt --prove-dataflow

// A value that is read from a state stays what it was when the state is written.

nn.model @m family "gpt2" phase "kernels" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<64xf32>
  nn.state @t role accumulator : tensor<64xf32>
  nn.bucket @both [@s, @t] : tensor<128xf32>
  plan.kernel @relu(%x: tensor<64xf32>) -> tensor<64xf32> attributes {
      generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<64xf32>
    plan.yield %0 : tensor<64xf32>
  }
  plan.kernel @norm(%x: tensor<128xf32>) -> tensor<f32> attributes {
      generator = #plan.generator<reduce>, ties = array<i64: -1>} {
    %0 = nn.global_norm %x : (tensor<128xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }

  // Made in its place: nothing reads the old value.
  // CHECK-LABEL: plan.sequence @train
  // CHECK: %[[X:.*]] = plan.buffer {{.*}} {input = #nn.port<value, "x">}
  // CHECK: %[[Y:.*]] = plan.buffer {{.*}} {output = #nn.port<value, "y">}
  // CHECK: %[[S:.*]] = plan.state_ref @s : memref<64xf32>
  // CHECK-NEXT: plan.launch @relu(%[[X]], %[[S]])
  // CHECK-NEXT: plan.launch @relu(%[[X]], %[[Y]])
  // CHECK-NEXT: plan.end
  nn.step @train(%x: tensor<64xf32>) -> tensor<64xf32> attributes {
      kind = #nn.program<train>, phase = #nn.phase<"train", from_step = 1>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %new = plan.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
    nn.set @s, %new : tensor<64xf32>
    %y = plan.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
    nn.return %y : tensor<64xf32>
  }

  // The old value is used after the set.
  // CHECK-LABEL: plan.sequence @after
  // CHECK: %[[X:.*]] = plan.buffer {{.*}} {input = #nn.port<value, "x">}
  // CHECK: %[[Y:.*]] = plan.buffer {{.*}} {output = #nn.port<value, "y">}
  // CHECK: %[[OLD:.*]] = plan.buffer at {{.*}} live[0, 2] owner "activations"
  // CHECK: plan.copy %[[OLD]], %[[S:.*]] : memref<64xf32>, memref<64xf32>
  // CHECK-NEXT: plan.launch @relu(%[[X]], %[[S]])
  // CHECK-NEXT: plan.launch @relu(%[[OLD]], %[[Y]])
  nn.step @after(%x: tensor<64xf32>) -> tensor<64xf32> attributes {
      kind = #nn.program<train>, phase = #nn.phase<"after", from_step = 2>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %old = nn.get @s : tensor<64xf32>
    %new = plan.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
    nn.set @s, %new : tensor<64xf32>
    %y = plan.launch @relu(%old) : (tensor<64xf32>) -> tensor<64xf32>
    nn.return %y : tensor<64xf32>
  }

  // The kernel that makes the new value reads the old one, without a tie.
  // CHECK-LABEL: plan.sequence @self
  // CHECK: %[[S:.*]] = plan.state_ref @s
  // CHECK: %[[NEW:.*]] = plan.buffer
  // CHECK: plan.launch @relu(%[[S]], %[[NEW]])
  // CHECK-NEXT: plan.copy %[[S]], %[[NEW]]
  nn.step @self() attributes {
      kind = #nn.program<train>, phase = #nn.phase<"self", from_step = 3>, inputs = [], outputs = []} {
    %old = nn.get @s : tensor<64xf32>
    %new = plan.launch @relu(%old) : (tensor<64xf32>) -> tensor<64xf32>
    nn.set @s, %new : tensor<64xf32>
    nn.return
  }

  // A bucket and its member are the same bytes.
  // CHECK-LABEL: plan.sequence @bucket
  // CHECK: plan.copy %[[OLD:.*]], %{{.*}} : memref<128xf32>, memref<128xf32>
  // CHECK: plan.launch @relu(
  // CHECK: plan.launch @norm(%[[OLD]],
  nn.step @bucket(%x: tensor<64xf32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, phase = #nn.phase<"bucket", from_step = 4>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %old = nn.get @both : tensor<128xf32>
    %new = plan.launch @relu(%x) : (tensor<64xf32>) -> tensor<64xf32>
    nn.set @t, %new : tensor<64xf32>
    %y = plan.launch @norm(%old) : (tensor<128xf32>) -> tensor<f32>
    nn.return %y : tensor<f32>
  }

  // A loop that writes the state: its second iteration reads what was there
  // before the first.
  // CHECK-LABEL: plan.sequence @loop
  // CHECK: plan.copy %[[OLD:.*]], %{{.*}}
  // CHECK-NEXT: plan.loop 2
  // CHECK: plan.launch @relu(%[[OLD]],
  nn.step @loop() attributes {
      kind = #nn.program<train>, phase = #nn.phase<"loop", from_step = 5>, inputs = [], outputs = []} {
    %old = nn.get @s : tensor<64xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %new = plan.launch @relu(%old) : (tensor<64xf32>) -> tensor<64xf32>
      nn.set @s, %new : tensor<64xf32>
      nn.return
    }
    nn.return
  }
}
