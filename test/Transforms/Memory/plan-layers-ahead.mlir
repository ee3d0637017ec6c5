// RUN: heddle-opt %s --spmd-fetch-parameters --fuse-form-kernels -o %t.fused
// RUN: sed 's/strategy = #dist.strategy<{/&memory_budget = 1048576, /' %t.fused > %t.all
// RUN: sed 's/memory_budget = 1048576/&, zero = {max_live_parameters = 12288}/' %t.all > %t.live
// RUN: heddle-opt %t.fused --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ONE
// RUN: heddle-opt %t.all --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ALL
// RUN: sed 's/memory_budget = 1048576/memory_budget = 60000/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=TWO
// RUN: heddle-opt %t.live --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=TWO
// RUN: sed 's/max_live_parameters = 12288/prefetch_bucket_size = 8192/' %t.live | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=TWO
// RUN: sed 's/max_live_parameters = 12288/max_live_parameters = 12287/' %t.live | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ONE
// RUN: sed 's/max_live_parameters = 12288/prefetch_bucket_size = 8191/' %t.live | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ONE

// Without a budget a layer is fetched while the one before it runs. The last one
// is there in both passes, and so is the table, for the head and its gradient.

// ONE: arena_bytes = #plan.bytes<device 36864>
// ONE-COUNT-3: plan.copy {{.*}} on copy
// ONE-NOT: plan.copy
// ONE: path "h.0"
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.1"
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.2"
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.3"
// ONE-NOT: plan.copy
// ONE: plan.launch
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.3"
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.2"
// ONE: plan.copy {{.*}} on copy
// ONE: path "h.1"
// ONE-NOT: plan.copy
// ONE: path "h.0"

// With room for one more, or where the strategy allows that, two layers run
// before.
// TWO: arena_bytes = #plan.bytes<device 53248>
// TWO-COUNT-4: plan.copy {{.*}} on copy
// TWO-NOT: plan.copy
// TWO: path "h.0"
// TWO: plan.copy {{.*}} on copy
// TWO: path "h.1"
// TWO: plan.copy {{.*}} on copy
// TWO: path "h.2"
// TWO: plan.copy {{.*}} on copy
// TWO: path "h.3"
// TWO: plan.copy {{.*}} on copy
// TWO: path "h.3"
// TWO: plan.copy {{.*}} on copy
// TWO: path "h.2"
// TWO-NOT: plan.copy

// With room for all, those of the forward pass come behind the first layer's.
// Those of the backward pass wait until the forward pass has read the same.
// ALL: arena_bytes = #plan.bytes<device 86016>
// ALL-COUNT-6: plan.copy {{.*}} on copy
// ALL-NOT: plan.copy
// ALL: path "h.2"
// ALL-COUNT-3: plan.copy {{.*}} on copy
// ALL: path "h.3"
// ALL-NOT: plan.copy

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 0}}>, config = "{}", weights = {}} {
  nn.state @t role parameter : tensor<64x64xf32> {memory = #nn<memory file>, trainable}
  nn.state @h.0.w role parameter : tensor<64x64xf32> {memory = #nn<memory file>, trainable}
  nn.state @h.1.w role parameter : tensor<64x64xf32> {memory = #nn<memory file>, trainable}
  nn.state @h.2.w role parameter : tensor<64x64xf32> {memory = #nn<memory file>, trainable}
  nn.state @h.3.w role parameter : tensor<64x64xf32> {memory = #nn<memory file>, trainable}
  nn.bucket @decay [@t, @h.0.w, @h.1.w, @h.2.w, @h.3.w] : tensor<20480xf32>
  nn.func @layer(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> {
    %0 = nn.linear %x, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    nn.return %0 : tensor<4x64xf32>
  }
  nn.step @train(%ids: tensor<4xi32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %t = nn.get @t : tensor<64x64xf32>
      %0 = nn.embedding %t[%ids] : (tensor<64x64xf32>, tensor<4xi32>) -> tensor<4x64xf32>
      %a = nn.get @h.0.w : tensor<64x64xf32>
      %1 = nn.call @layer(%0, %a) path "h.0" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %b = nn.get @h.1.w : tensor<64x64xf32>
      %2 = nn.call @layer(%1, %b) path "h.1" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %c = nn.get @h.2.w : tensor<64x64xf32>
      %3 = nn.call @layer(%2, %c) path "h.2" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %d = nn.get @h.3.w : tensor<64x64xf32>
      %4 = nn.call @layer(%3, %d) path "h.3" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %5 = nn.linear %4, %t {transposed} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %6 = nn.linear %5, %t : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %7 = nn.call @layer(%6, %d) path "h.3" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %8 = nn.call @layer(%7, %c) path "h.2" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %9 = nn.call @layer(%8, %b) path "h.1" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      %10 = nn.call @layer(%9, %a) path "h.0" : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
      nn.return
    }
    nn.return
  }
}
