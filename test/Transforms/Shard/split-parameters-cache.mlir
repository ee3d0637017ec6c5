// RUN: heddle-opt %s --shard-make-mesh --shard-split-parameters --shard-propagate --shard-insert-reshards --shard-verify | FileCheck %s

// Heads pass through the write of the cache, in another dimension: each rank has
// the keys and values of its heads. What a norm needs whole is not split, nor is
// the cache behind it.

// CHECK: nn.state @qkv role parameter : tensor<6x18xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"]], unreduced []>
// CHECK: nn.state @proj role parameter : tensor<6x6xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @keys role cache : tensor<5x2x3x16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"], [], []], unreduced []>
// CHECK: nn.state @values role cache : tensor<5x2x16x3xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"], [], []], unreduced []>
// CHECK: nn.state @other role parameter : tensor<6x18xf32> {trainable}
// CHECK: nn.state @normed_keys role cache : tensor<5x2x3x16xf32>{{$}}
// CHECK: nn.func @attention
// CHECK: nn.cache_write {{.*}} shardings = [#dist.sharding<{{\[\[}}], ["tensor"], [], []], unreduced []>, #dist.sharding<{{\[\[}}], ["tensor"], [], []], unreduced []>]
// CHECK: nn.step @decode
// CHECK-NOT: dist.reshard {{.*}}tensor<5x
// CHECK: nn.set @keys
nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @qkv role parameter : tensor<6x18xf32> {segments = array<i64: 6, 6, 6>, trainable}
  nn.state @proj role parameter : tensor<6x6xf32> {trainable}
  nn.state @keys role cache : tensor<5x2x3x16xf32>
  nn.state @values role cache : tensor<5x2x16x3xf32>
  nn.state @other role parameter : tensor<6x18xf32> {trainable}
  nn.state @scale role parameter : tensor<18xf32> {trainable}
  nn.state @normed_keys role cache : tensor<5x2x3x16xf32>
  nn.state @normed_values role cache : tensor<5x2x16x3xf32>
  nn.func @attention(%x: tensor<1x1x6xf32>, %qkv: tensor<6x18xf32>, %proj: tensor<6x6xf32>, %k: tensor<5x2x3x16xf32>, %v: tensor<5x2x16x3xf32>, %p: tensor<1x4xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>) {
    %0 = nn.linear %x, %qkv : (tensor<1x1x6xf32>, tensor<6x18xf32>) -> tensor<1x1x18xf32>
    %nk, %nv = nn.cache_write %k, %v of %0 pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x1x18xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>)
    %1 = nn.paged_attention %nk, %nv of %0 pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x1x18xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x6xf32>
    %2 = nn.linear %1, %proj : (tensor<1x1x6xf32>, tensor<6x6xf32>) -> tensor<1x1x6xf32>
    nn.return %2, %nk, %nv : tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>
  }
  nn.func @normed(%x: tensor<1x1x6xf32>, %qkv: tensor<6x18xf32>, %s: tensor<18xf32>, %k: tensor<5x2x3x16xf32>, %v: tensor<5x2x16x3xf32>, %p: tensor<1x4xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>) {
    %0 = nn.linear %x, %qkv : (tensor<1x1x6xf32>, tensor<6x18xf32>) -> tensor<1x1x18xf32>
    %y, %rstd = nn.rms_norm %0, %s {eps = 1.0e-5 : f64} : (tensor<1x1x18xf32>, tensor<18xf32>) -> (tensor<1x1x18xf32>, tensor<1x1xf32>)
    %nk, %nv = nn.cache_write %k, %v of %y pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x1x18xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>)
    %1 = nn.paged_attention %nk, %nv of %y pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x1x18xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x6xf32>
    nn.return %1, %nk, %nv : tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>
  }
  nn.step @decode(%x: tensor<1x1x6xf32>, %p: tensor<1x4xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x6xf32> attributes {kind = #nn.program<decode>, inputs = [#nn.port<hidden>, #nn.port<pages>, #nn.port<positions>, #nn.port<lengths>], outputs = [#nn.port<hidden>]} {
    %qkv = nn.get @qkv : tensor<6x18xf32>
    %proj = nn.get @proj : tensor<6x6xf32>
    %k = nn.get @keys : tensor<5x2x3x16xf32>
    %v = nn.get @values : tensor<5x2x16x3xf32>
    %y:3 = nn.call @attention(%x, %qkv, %proj, %k, %v, %p, %at, %n) path "h.0" : (tensor<1x1x6xf32>, tensor<6x18xf32>, tensor<6x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>)
    nn.set @keys, %y#1 : tensor<5x2x3x16xf32>
    nn.set @values, %y#2 : tensor<5x2x16x3xf32>
    %other = nn.get @other : tensor<6x18xf32>
    %s = nn.get @scale : tensor<18xf32>
    %ok = nn.get @normed_keys : tensor<5x2x3x16xf32>
    %ov = nn.get @normed_values : tensor<5x2x16x3xf32>
    %z:3 = nn.call @normed(%y#0, %other, %s, %ok, %ov, %p, %at, %n) path "h.1" : (tensor<1x1x6xf32>, tensor<6x18xf32>, tensor<18xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>, tensor<1x4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<1x1x6xf32>, tensor<5x2x3x16xf32>, tensor<5x2x16x3xf32>)
    nn.set @normed_keys, %z#1 : tensor<5x2x3x16xf32>
    nn.set @normed_values, %z#2 : tensor<5x2x16x3xf32>
    nn.return %z#0 : tensor<1x1x6xf32>
  }
}
