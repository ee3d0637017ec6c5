// RUN: heddle-opt %s --spmd-fetch-parameters --verify-roundtrip | FileCheck %s
// RUN: sed 's/sub_group_size = 0/sub_group_size = 0}, zero = {max_live_parameters = 4608/' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=LATE
// RUN: sed 's/sub_group_size = 0/sub_group_size = 0}, zero = {prefetch_bucket_size = 2000/' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=LATE
// RUN: sed 's/memory = #nn<memory file>, //' %s | heddle-opt --spmd-fetch-parameters | FileCheck %s --check-prefix=HERE

// What stands before the first layer is fetched at the block's beginning, and so
// is that layer, behind it; the second layer while the first is computed. Runs
// begin at pages of 2048 elements. The table is read again behind the last
// layer: it is not kept from the block's beginning on.

// CHECK-LABEL: nn.step @train
// CHECK: nn.micro_batches
// CHECK: %[[T:.*]] = dist.fetch @copies.decay[0] {pending} : tensor<2560xbf16>
// CHECK: %[[A:.*]] = dist.fetch @copies.decay[2048] {pending} : tensor<3072xbf16>
// CHECK: %[[TW:.*]] = dist.wait %[[T]]
// CHECK: %[[TABLE:.*]] = nn.unpack %[[TW]] : (tensor<2560xbf16>) -> tensor<50x50xbf16>
// CHECK: nn.embedding %[[TABLE]]
// CHECK: %[[AW:.*]] = dist.wait %[[A]]
// The first member is the beginning of the page.
// CHECK: %[[AP:.*]]:2 = nn.unpack %[[AW]] : (tensor<3072xbf16>) -> (tensor<512xbf16>, tensor<50x50xbf16>)
// CHECK: %[[B:.*]] = dist.fetch @copies.decay[4096] {pending} : tensor<3584xbf16>
// CHECK: nn.call @layer(%{{.*}}, %[[AP]]#1) path "h.0"
// CHECK: %[[BW:.*]] = dist.wait %[[B]]
// CHECK: %[[BP:.*]]:2 = nn.unpack %[[BW]] : (tensor<3584xbf16>) -> (tensor<1024xbf16>, tensor<50x50xbf16>)
// CHECK: %[[T2:.*]] = dist.fetch @copies.decay[0] {pending} : tensor<2560xbf16>
// CHECK: nn.call @layer(%{{.*}}, %[[BP]]#1) path "h.1"
// CHECK: %[[TW2:.*]] = dist.wait %[[T2]]
// CHECK: %[[TABLE2:.*]] = nn.unpack %[[TW2]]
// CHECK: nn.linear %{{.*}}, %[[TABLE2]] {transposed}
// Once for both.
// CHECK: nn.linear %{{.*}}, %[[TABLE2]]
// CHECK: %[[A2:.*]] = dist.fetch @copies.decay[2048] {pending} : tensor<3072xbf16>
// The last layer's are there still.
// CHECK: nn.call @layer(%{{.*}}, %[[BP]]#1) path "h.1"
// CHECK: dist.wait %[[A2]]
// CHECK: nn.call @layer({{.*}}) path "h.0"
// CHECK-NOT: nn.get @{{.*}}.bf16
// CHECK-NOT: dist.fetch

// LATE: nn.call @layer({{.*}}) path "h.0"
// LATE-NEXT: dist.fetch @copies.decay[4096]
// LATE-NEXT: dist.wait

// HERE-NOT: dist.fetch

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 0}}>, config = "{}", weights = {}} {
  nn.state @t role parameter : tensor<50x50xf32> {trainable}
  nn.state @a role parameter : tensor<50x50xf32> {trainable}
  nn.state @b role parameter : tensor<50x50xf32> {trainable}
  nn.state @t.bf16 role derived : tensor<50x50xbf16> {memory = #nn<memory file>, parameter = "t"}
  nn.state @a.bf16 role derived : tensor<50x50xbf16> {memory = #nn<memory file>, parameter = "a"}
  nn.state @b.bf16 role derived : tensor<50x50xbf16> {memory = #nn<memory file>, parameter = "b"}
  nn.bucket @copies.decay [@t.bf16, @a.bf16, @b.bf16] : tensor<7680xbf16>
  nn.func @layer(%x: tensor<4x50xbf16>, %w: tensor<50x50xbf16>) -> tensor<4x50xbf16> {
    %0 = nn.linear %x, %w : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
    nn.return %0 : tensor<4x50xbf16>
  }
  nn.step @train(%ids: tensor<4xi32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %t = nn.get @t.bf16 : tensor<50x50xbf16>
      %0 = nn.embedding %t[%ids] : (tensor<50x50xbf16>, tensor<4xi32>) -> tensor<4x50xbf16>
      %a = nn.get @a.bf16 : tensor<50x50xbf16>
      %1 = nn.call @layer(%0, %a) path "h.0" : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      %b = nn.get @b.bf16 : tensor<50x50xbf16>
      %2 = nn.call @layer(%1, %b) path "h.1" : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      %3 = nn.linear %2, %t {transposed} : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      %4 = nn.linear %3, %t : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      %5 = nn.call @layer(%4, %b) path "h.1" : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      %6 = nn.call @layer(%5, %a) path "h.0" : (tensor<4x50xbf16>, tensor<50x50xbf16>) -> tensor<4x50xbf16>
      nn.return
    }
    nn.return
  }
}
