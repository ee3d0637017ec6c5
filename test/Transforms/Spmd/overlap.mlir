// RUN: heddle-opt %s --spmd-overlap | FileCheck %s
// RUN: sed 's/mesh = {data = 2}/&, zero = {prefetch_bucket_size = 127}/' %s | heddle-opt --spmd-overlap | FileCheck %s --check-prefix=LATE
// RUN: sed 's/mesh = {data = 2}/&, zero = {max_live_parameters = 255}/' %s | heddle-opt --spmd-overlap | FileCheck %s --check-prefix=LATE
// RUN: sed 's/mesh = {data = 2}/&, zero = {prefetch_bucket_size = 128, max_live_parameters = 256}/' %s | heddle-opt --spmd-overlap | FileCheck %s

// Where the limits say so, they are gathered when they are used.
// LATE: nn.call @layer{{.*}} path "h.0"
// LATE: dist.all_gather {{.*}} for "h.1" : tensor<64xf32>
// LATE: nn.call @layer{{.*}} path "h.1"

// A layer's parameters are gathered while the layer before it runs; the sum of
// a layer's gradients is waited for when the next layer has run.

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w0 role parameter : tensor<128xf32> {trainable}
  nn.state @w1 role parameter : tensor<128xf32> {trainable}
  nn.bucket @u0 [@w0] : tensor<64xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 128 : i64}
  nn.bucket @u1 [@w1] : tensor<64xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 128 : i64}
  nn.func @layer(%x: tensor<128xf32>, %w: tensor<128xf32>) -> tensor<128xf32> {
    %0 = nn.add %x, %w : tensor<128xf32>
    nn.return %0 : tensor<128xf32>
  }
  // CHECK: nn.step @train(%[[X:[^:]*]]:
  nn.step @train(%x: tensor<128xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // The first has no layer before it.
    // CHECK: %[[F0:.*]] = dist.all_gather %{{.*}} axes ["data"] dim 0 for "h.0" : tensor<64xf32>
    // CHECK: %[[W0:.*]] = nn.unpack %[[F0]]
    %p0 = nn.get @u0 : tensor<64xf32>
    %f0 = dist.all_gather %p0 axes ["data"] dim 0 for "h.0" : tensor<64xf32> -> tensor<128xf32>
    %w0 = nn.unpack %f0 : (tensor<128xf32>) -> tensor<128xf32>
    // CHECK: %[[F1:.*]] = dist.all_gather %{{.*}} axes ["data"] dim 0 for "h.1" {pending}
    // CHECK: %[[Y:.*]] = nn.call @layer(%[[X]], %[[W0]]) path "h.0"
    // CHECK: %[[D1:.*]] = dist.wait %[[F1]]
    // CHECK: nn.unpack %[[D1]]
    %y = nn.call @layer(%x, %w0) path "h.0" : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %p1 = nn.get @u1 : tensor<64xf32>
    %f1 = dist.all_gather %p1 axes ["data"] dim 0 for "h.1" : tensor<64xf32> -> tensor<128xf32>
    %w1 = nn.unpack %f1 : (tensor<128xf32>) -> tensor<128xf32>
    // CHECK: %[[S:.*]] = dist.reduce_scatter %{{.*}} axes ["data"] dim 0 for "h.0" {pending}
    // CHECK: nn.call @layer
    // CHECK: %[[DONE:.*]] = dist.wait %[[S]]
    // CHECK: nn.set @u0, %[[DONE]]
    %g = nn.pack %y : (tensor<128xf32>) -> tensor<128xf32>
    %s = dist.reduce_scatter %g axes ["data"] dim 0 for "h.0" : tensor<128xf32> -> tensor<64xf32>
    nn.set @u0, %s : tensor<64xf32>
    %z = nn.call @layer(%y, %w1) path "h.1" : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    nn.return
  }
}
