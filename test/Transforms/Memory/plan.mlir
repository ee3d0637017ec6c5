// RUN: heddle-opt %s --memory-plan --memory-verify | FileCheck %s

// Steps find what others left in these states, as in those of no role.
// RUN: heddle-opt %s --memory-plan | sed 's/role = #nn<role accumulator>/any/' | heddle-opt --prove-dataflow
// RUN: not heddle-opt %s --memory-plan=shrink-pages=1 --memory-verify 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: sed 's/memory_budget = 0/memory_budget = 8191/' %s | not heddle-opt --memory-plan 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: sed 's/memory_budget = 0/memory_budget = 8191, mesh = {pipe = 2}/; s/kernels" attributes {/&stage = 0 : i64,/' %s > %t
// RUN: sed 's/memory_budget = 0/memory_budget = 8191, mesh = {pipe = 2}/; s/kernels" attributes {/&stage = 1 : i64,/; s/nn.model @m/nn.model @n/; s/scratch_bytes = 100 /scratch_bytes = 4000 /' %s >> %t
// RUN: not heddle-opt --memory-plan %t 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: sed 's/memory_budget = 0/memory_budget = 8192/' %s | heddle-opt --memory-plan --memory-verify | FileCheck %s

// One page less does not do.
// SHORT: error: H0913: the arena has 0 bytes, frames and scratch need 768

// BUDGET: error: H0201: the plan needs 8.00 KiB (8192 bytes), the budget is 8.00 KiB (8191 bytes)
// BUDGET: note: activations: 64 B (64 bytes)
// BUDGET: note: parameters: 512 B (512 bytes)

// Of the stages that are over it, the one that needs most.
// STAGE-NOT: stage 0
// STAGE: error: H0201: the plan needs 16.00 KiB (16384 bytes) in stage 1, the budget is 8.00 KiB (8191 bytes)
// STAGE-NOT: stage 0

// CHECK: plan.program @m family "gpt2" phase "kernels" attributes {arena_bytes = #plan.bytes<device 4096>,
// CHECK-SAME: owners = {accumulators = 256 : i64, activations = 64 : i64,
// CHECK-SAME: parameters = 512 : i64
// CHECK-SAME: "scratch of threads" = 256 : i64
// CHECK-SAME: persistent_bytes = #plan.bytes<device 4096>, scratch_bytes_per_thread = 128 : i64,
// CHECK-SAME: weights = {seed = 1 : i64}}
nn.model @m family "gpt2" phase "kernels" attributes {
    strategy = #dist.strategy<{threads = 2, memory_budget = 0}>,
    config = "{}", weights = {seed = 1 : i64}} {
  // Members of a bucket stand side by side, each padded to 64 elements, before
  // what is in no bucket.
  // CHECK-NEXT: plan.state @v at 0 : tensor<16xf32> {like = {role = #nn<role parameter>, trainable}}
  // CHECK-NEXT: plan.state @w at 256 : tensor<16xf32>
  // CHECK-NEXT: plan.state @s at 512 : tensor<16xf32> {like = {role = #nn<role accumulator>}}
  nn.state @s role accumulator : tensor<16xf32>
  nn.state @w role parameter : tensor<16xf32>
  nn.state @v role parameter : tensor<16xf32> {trainable}
  nn.bucket @both [@v, @w] : tensor<128xf32>

  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32> attributes {
      generator = #plan.generator<rows>, ties = array<i64: -1>, scratch_bytes = 100 : i64} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.kernel @acc(%x: tensor<16xf32>, %s: tensor<16xf32>) -> tensor<16xf32> attributes {
      generator = #plan.generator<rows>, ties = array<i64: 1>} {
    %0 = nn.add %x, %s : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.kernel @norm(%x: tensor<128xf32>) -> tensor<f32> attributes {
      generator = #plan.generator<reduce>, ties = array<i64: -1>} {
    %0 = nn.global_norm %x : (tensor<128xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }

  // The first and the third value share bytes; results are made where the
  // caller wants them.
  // CHECK: plan.sequence @layer(%[[X:.*]]: memref<16xf32>, %[[Y:.*]]: memref<16xf32>) attributes {frame_bytes = 128 : i64} {
  // CHECK-NEXT: %[[A:.*]] = plan.buffer at 0 live[0, 1] owner "activations" : memref<16xf32>
  // CHECK-NEXT: %[[B:.*]] = plan.buffer at 64 live[1, 2] owner "activations" : memref<16xf32>
  // CHECK-NEXT: %[[C:.*]] = plan.buffer at 0 live[2, 3] owner "activations" : memref<16xf32>
  // CHECK-NEXT: plan.launch @relu(%[[X]], %[[A]])
  // CHECK-NEXT: plan.launch @relu(%[[A]], %[[B]])
  // CHECK-NEXT: plan.launch @relu(%[[B]], %[[C]])
  // CHECK-NEXT: plan.launch @relu(%[[C]], %[[Y]])
  // CHECK-NEXT: plan.end
  nn.func @layer(%x: tensor<16xf32>) -> tensor<16xf32> {
    %a = plan.launch @relu(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %b = plan.launch @relu(%a) : (tensor<16xf32>) -> tensor<16xf32>
    %c = plan.launch @relu(%b) : (tensor<16xf32>) -> tensor<16xf32>
    %d = plan.launch @relu(%c) : (tensor<16xf32>) -> tensor<16xf32>
    nn.return %d : tensor<16xf32>
  }

  // CHECK: plan.sequence @train() attributes {frame_bytes = [[FRAME:[0-9]+]] : i64, kind = #nn.program<train>} {
  nn.step @train(%x: tensor<2x16xf32>) -> tensor<16xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // CHECK-DAG: %[[IN:.*]] = plan.buffer at {{[0-9]+}} live[0, [[END:[0-9]+]]] owner "inputs and outputs" {input = #nn.port<value, "x">} : memref<2x16xf32>
    // CHECK-DAG: %[[OUT:.*]] = plan.buffer at {{[0-9]+}} live[0, [[END]]] owner "inputs and outputs" {output = #nn.port<value, "y">} : memref<16xf32>
    // CHECK-DAG: %[[KEPT:.*]] = plan.buffer at {{[0-9]+}} live[0, [[END]]] owner "inputs and outputs" {output = #nn.port<value, "value.h.0">} : memref<2x16xf32>
    // CHECK-DAG: %[[S:.*]] = plan.state_ref @s
    // CHECK-DAG: %[[BOTH:.*]] = plan.state_ref @v : memref<128xf32>
    // CHECK: plan.loop 2 {
    // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
    nn.micro_batches 2 {
    ^bb0(%i: index):
      // CHECK: %[[ROW:.*]] = plan.slice %[[IN]][%[[I]]] : memref<2x16xf32> -> memref<16xf32>
      %row = nn.micro_batch %x[%i] : tensor<2x16xf32> -> tensor<16xf32>
      // CHECK: plan.call @layer(%[[ROW]], %[[H:.*]]) frame {{[0-9]+}} path "h.0"
      %h = nn.call @layer(%row) path "h.0" : (tensor<16xf32>) -> tensor<16xf32>
      // CHECK: %[[PLACE:.*]] = plan.slice %[[KEPT]][%[[I]]]
      // CHECK: plan.copy %[[PLACE]], %[[H]]
      nn.keep %h as "h.0" : tensor<16xf32>
      // A sum takes the place of what it adds to: no copy.
      // CHECK: plan.launch @acc(%[[H]], %[[S]])
      // CHECK-NEXT: }
      %s = nn.get @s : tensor<16xf32>
      %t = plan.launch @acc(%h, %s) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
      nn.set @s, %t : tensor<16xf32>
      nn.return
    }
    // A bucket begins where its first member does.
    // CHECK: plan.launch @norm(%[[BOTH]], %{{.*}}) : (memref<128xf32>, memref<f32>) -> ()
    %both = nn.get @both : tensor<128xf32>
    %norm = plan.launch @norm(%both) : (tensor<128xf32>) -> tensor<f32>
    // CHECK: plan.copy %[[OUT]], %[[S]]
    // CHECK-NEXT: plan.end
    %y = nn.get @s : tensor<16xf32>
    nn.return %y : tensor<16xf32>
  }
}
