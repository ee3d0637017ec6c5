// RUN: heddle-opt %s --spmd-fetch-parameters --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-fetch-parameters --fuse-form-kernels --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=PLAN
// RUN: sed 's/5003/61/g; s/600384/7360/; s/600448/7424/' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/x120/x600000/g; s/tensor<120/tensor<600000/g; s/600448/3001800064/g' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/%emb\[%ids\]/%emb[%ids] first %i/; s/tensor<5x7xi32>) -> tensor<5x7x120xbf16>/tensor<5x7xi32>, index) -> tensor<5x7x120xbf16>/' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=PART
// RUN: sed 's/memory = #nn<memory file>, //' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=HERE

// An embedding fetches the rows of its tokens, as soon as there are ids. The head,
// which is the same table, fetches all of it.

// CHECK-LABEL: nn.step @eval
// CHECK: nn.micro_batches
// CHECK: %[[I:.*]] = nn.micro_batch %{{.*}} : tensor<2x5x7xi32> -> tensor<5x7xi32>
// CHECK-NEXT: %[[F:.*]] = dist.fetch_rows @copies.decay[64] of 5003 at %[[I]] {pending} : tensor<5x7xi32> -> tensor<5x7x120xbf16>
// CHECK: %[[X:.*]] = dist.wait %[[F]] : tensor<5x7x120xbf16>
// CHECK-NOT: nn.embedding
// CHECK: nn.call @layer(%[[X]], %{{.*}}) path "h.0"
// CHECK: dist.wait
// CHECK: %[[TABLE:.*]]:2 = nn.unpack %{{.*}} : (tensor<600448xbf16>) -> (tensor<64xbf16>, tensor<5003x120xbf16>)
// CHECK: nn.linear %{{.*}}, %[[TABLE]]#1 {transposed}
// CHECK-NOT: dist.fetch_rows

// The plan copies rows beside the kernels.
// PLAN-LABEL: plan.sequence @eval
// PLAN: plan.loop 2
// PLAN: %[[TABLE:.*]] = plan.view %{{.*}}[64] : memref<600448xbf16> -> memref<5003x120xbf16>
// PLAN: %[[READY:.*]] = plan.record compute
// PLAN: plan.wait %[[READY]] on copy
// PLAN: plan.copy_rows %[[ROWS:.*]], %[[TABLE]] at %{{.*}} on copy : memref<5x7x120xbf16>, memref<5003x120xbf16>, memref<5x7xi32>
// PLAN: %[[THERE:.*]] = plan.record copy
// PLAN: plan.wait %[[THERE]]{{ *$}}
// PLAN: plan.call @layer(%[[ROWS]]

// Of a part of a table the rows are fetched that it has.
// PART: dist.fetch_rows @copies.decay[64] of 5003 at %{{.*}} first %{{.*}} {pending} : tensor<5x7xi32> -> tensor<5x7x120xbf16>
// PART-NOT: nn.embedding

// A table of fewer pages than those rows are on is fetched as a whole, and so is one of rows of more than 1 MiB.
// WHOLE: dist.fetch
// WHOLE: nn.embedding
// WHOLE-NOT: dist.fetch_rows

// HERE: nn.embedding
// HERE-NOT: dist.fetch

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 0}}>, config = "{}", weights = {}} {
  nn.state @n role parameter : tensor<60xf32> {trainable}
  nn.state @t role parameter : tensor<5003x120xf32> {trainable}
  nn.state @a role parameter : tensor<120x120xf32> {trainable}
  nn.state @n.bf16 role derived : tensor<60xbf16> {memory = #nn<memory file>, parameter = "n"}
  nn.state @t.bf16 role derived : tensor<5003x120xbf16> {memory = #nn<memory file>, parameter = "t"}
  nn.state @a.bf16 role derived : tensor<120x120xbf16> {parameter = "a"}
  nn.bucket @copies.decay [@n.bf16, @t.bf16] : tensor<600448xbf16>
  nn.func @layer(%x: tensor<5x7x120xbf16>, %w: tensor<120x120xbf16>) -> tensor<5x7x120xbf16> {
    %0 = nn.linear %x, %w : (tensor<5x7x120xbf16>, tensor<120x120xbf16>) -> tensor<5x7x120xbf16>
    nn.return %0 : tensor<5x7x120xbf16>
  }
  nn.step @eval(%all: tensor<2x5x7xi32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %ids = nn.micro_batch %all[%i] : tensor<2x5x7xi32> -> tensor<5x7xi32>
      %emb = nn.get @t.bf16 : tensor<5003x120xbf16>
      %0 = nn.embedding %emb[%ids] : (tensor<5003x120xbf16>, tensor<5x7xi32>) -> tensor<5x7x120xbf16>
      %a = nn.get @a.bf16 : tensor<120x120xbf16>
      %1 = nn.call @layer(%0, %a) path "h.0" : (tensor<5x7x120xbf16>, tensor<120x120xbf16>) -> tensor<5x7x120xbf16>
      %2 = nn.linear %1, %emb {transposed} : (tensor<5x7x120xbf16>, tensor<5003x120xbf16>) -> tensor<5x7x5003xbf16>
      nn.keep %2 as "logits" : tensor<5x7x5003xbf16>
      nn.return
    }
    nn.return
  }
}
