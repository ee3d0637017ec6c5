// RUN: heddle-opt %s --pipe-split --pipe-verify | FileCheck %s
// RUN: heddle-opt %s --pipe-split | FileCheck %s --check-prefix=LAST

// Two layers on two stages, and an embedding that is also the head: the first
// stage looks rows up in it, the last one multiplies by it.

#none = #dist.sharding<[], unreduced []>
#flat = #dist.sharding<[[]], unreduced []>
#w = #dist.sharding<[[], []], unreduced []>
#x = #dist.sharding<[[], [], []], unreduced []>

// CHECK-LABEL: nn.model @m.stage0
// CHECK-SAME: stage = 0
// CHECK: dist.mesh @mesh
// CHECK: nn.state @e role parameter
// CHECK: nn.state @a role parameter
// What the backward pass reads is kept for both micro-batches under way.
// CHECK-NOT: nn.state @b
// CHECK-DAG: nn.state @[[GIVEN:saved.0.[0-9]]] role saved : tensor<2x1x2x8xf32> {storage = #dist.sharding<{{\[\[\], \[\], \[\], \[\]\]}}, unreduced []>}
// CHECK: nn.bucket @parameters [@e, @a] : tensor<128xf32>
// CHECK: pipe.stage @stage0 index 0 calls ["h.0"]
// CHECK-NOT: pipe.stage
// CHECK: pipe.schedule @schedule

// CHECK: nn.step @train(%[[IDS:[^:]*]]: tensor<2x1x2xi32>{{.*}}, %{{.*}}: tensor<f32>
// CHECK-SAME: inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<lr>, #nn.port<value, "b1">, #nn.port<value, "b2">]
// CHECK-SAME: outputs = [#nn.port<loss>, #nn.port<grad_norm>]
// CHECK: nn.fill {{.*}} -> tensor<128xf32>
// CHECK: pipe.fragments "F0 F1 B0 B1" slots [2, 2] {
// CHECK: ^bb0(%[[I:.*]]: index{{.*}}, %[[SLOT:.*]]: index{{.*}}):
// CHECK: %[[PART:.*]] = nn.micro_batch %[[IDS]][%[[I]]]
// CHECK: %[[E:.*]] = nn.get @e
// CHECK: %[[X:.*]] = nn.embedding %[[E]][%[[PART]]]
// CHECK: nn.set @{{saved.0.[0-9]}}[%[[SLOT]]], %[[X]]
// CHECK: %[[Y:.*]] = nn.call @layer.fwd(%[[X]], {{.*}}) path "h.0"
// CHECK: nn.set @[[SENT:saved.0.[0-9]]][%[[SLOT]]], %[[Y]]
// CHECK: %[[OUT:.*]] = nn.get @[[SENT]][%[[SLOT]]]
// CHECK: dist.send %[[OUT]] to 1 on "pipe" channel "F1"
// CHECK: nn.return
// CHECK: ^bb0(%[[I:.*]]: index{{.*}}, %[[SLOT:.*]]: index{{.*}}):
// The sum of the tied gradient starts anew here.
// CHECK: %[[BEFORE:.*]] = nn.get @e.grad
// CHECK: %[[G:.*]] = dist.recv from 1 on "pipe" channel "B0"
// CHECK: nn.call @layer.bwd({{.*}}, %[[G]], {{.*}}) path "h.0"
// CHECK: %[[SUM:.*]] = nn.embedding_grad {{.*}} init %[[BEFORE]]
// CHECK: nn.set @e.grad, %[[SUM]]
// CHECK: nn.return
// CHECK: %[[OWN:.*]] = nn.get @e.grad
// CHECK: %[[OTHER:.*]] = dist.recv from 1 on "pipe" channel "e.grad"
// CHECK: %[[BOTH:.*]] = nn.add %[[OWN]], %[[OTHER]]
// CHECK: nn.set @e.grad, %[[BOTH]]
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "e.grad.sum"
// CHECK: %[[LOSS:.*]] = nn.get @train.loss
// CHECK: %[[MEAN:.*]] = dist.reshard %[[LOSS]] from <[], unreduced ["pipe"]> to <[], unreduced []> for "nn.return"
// CHECK: %[[SQUARES:.*]] = nn.square_sums {{.*}} : (tensor<128xf32>) -> tensor<1xf32>
// CHECK: %[[PACKED:.*]] = nn.pack %[[SQUARES]]
// CHECK: %[[MINE:.*]] = nn.sum %[[PACKED]] {{.*}}unreduced ["pipe"]
// CHECK: %[[ALL:.*]] = dist.reshard %[[MINE]] from <[], unreduced ["pipe"]> to <[], unreduced []>
// CHECK: %[[NORM:.*]] = nn.global_norm %[[ALL]] {{.*}}summed
// CHECK: nn.update "adamw" {{.*}} -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
// CHECK: nn.return %[[MEAN]], %[[NORM]]

// The first stage of text being made has no result.
// CHECK: nn.step @generate(%{{.*}}: tensor<1x2xi32>
// CHECK-SAME: outputs = []
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "F1" : tensor<1x2x8xf32>
// CHECK: nn.return{{$| loc}}

// LAST-LABEL: nn.model @m.stage1
// LAST-SAME: stage = 1
// LAST: nn.bucket @parameters [@b] : tensor<64xf32>
// LAST: nn.bucket @parameters.tied [@e] : tensor<64xf32>
// LAST: pipe.stage @stage1 index 1 calls ["h.1"]
// LAST: nn.step @train
// LAST-SAME: inputs = [#nn.port<labels>, #nn.port<lr>, #nn.port<value, "b1">, #nn.port<value, "b2">]
// LAST: pipe.fragments "F0 B0 F1 B1" slots [1, 1] {
// LAST: %[[X:.*]] = dist.recv from -1 on "pipe" channel "F1"
// LAST: nn.call @layer.fwd(%[[X]]
// LAST-NOT: nn.linear
// LAST: nn.return
// The head, its loss and their gradients: nothing of the size of the logits is
// kept.
// LAST: nn.linear
// LAST: nn.cross_entropy
// LAST: %[[SUM:.*]] = nn.linear_grad_weight {{.*}} init
// LAST: nn.set @e.grad, %[[SUM]]
// LAST: nn.call @layer.bwd
// LAST: dist.send {{.*}} to -1 on "pipe" channel "B0"
// LAST: nn.sum
// LAST: nn.set @train.loss
// LAST: nn.return
// LAST: %[[OWN:.*]] = nn.get @e.grad
// LAST: dist.send %[[OWN]] to -1 on "pipe" channel "e.grad"
// LAST: %[[BOTH:.*]] = dist.recv from -1 on "pipe" channel "e.grad.sum"
// LAST: nn.set @e.grad, %[[BOTH]]
// The copy of the embedding is updated, and not counted.
// LAST-COUNT-1: nn.square_sums
// LAST-NOT: nn.square_sums
// LAST: nn.update
// LAST: nn.update
// LAST: nn.set @parameters.tied
// LAST: nn.step @generate(
// LAST-SAME: tensor<1x2x4xf32>
// LAST-SAME: inputs = []
// LAST-SAME: outputs = [#nn.port<logits>]

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 2, accumulate = 2, seq = 2}, mesh = {pipe = 2}}>,
    config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @train.loss role accumulator : tensor<f32>
  nn.state @train.scale role scalar : tensor<f32>
  nn.state @e role parameter : tensor<4x8xf32> {trainable}
  nn.state @e.grad role gradient : tensor<4x8xf32> {parameter = "e"}
  nn.state @e.exp_avg role optimizer : tensor<4x8xf32> {parameter = "e"}
  nn.state @e.exp_avg_sq role optimizer : tensor<4x8xf32> {parameter = "e"}
  nn.state @a role parameter : tensor<8x8xf32> {trainable}
  nn.state @a.grad role gradient : tensor<8x8xf32> {parameter = "a"}
  nn.state @a.exp_avg role optimizer : tensor<8x8xf32> {parameter = "a"}
  nn.state @a.exp_avg_sq role optimizer : tensor<8x8xf32> {parameter = "a"}
  nn.state @b role parameter : tensor<8x8xf32> {trainable}
  nn.state @b.grad role gradient : tensor<8x8xf32> {parameter = "b"}
  nn.state @b.exp_avg role optimizer : tensor<8x8xf32> {parameter = "b"}
  nn.state @b.exp_avg_sq role optimizer : tensor<8x8xf32> {parameter = "b"}
  nn.bucket @parameters [@e, @a, @b] : tensor<192xf32>
  nn.bucket @gradients [@e.grad, @a.grad, @b.grad] : tensor<192xf32>
  nn.bucket @exp_avg [@e.exp_avg, @a.exp_avg, @b.exp_avg] : tensor<192xf32>
  nn.bucket @exp_avg_sq [@e.exp_avg_sq, @a.exp_avg_sq, @b.exp_avg_sq] : tensor<192xf32>
  nn.func @layer.fwd(%x: tensor<1x2x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x2x8xf32>
      attributes {arg_shardings = [#x, #w], result_shardings = [#x]} {
    %y = nn.linear %x, %w {shardings = [#x]} : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
    nn.return %y : tensor<1x2x8xf32>
  }
  nn.func @layer.bwd(%x: tensor<1x2x8xf32>, %w: tensor<8x8xf32>, %g: tensor<1x2x8xf32>, %sum: tensor<8x8xf32>) -> (tensor<1x2x8xf32>, tensor<8x8xf32>)
      attributes {arg_shardings = [#x, #w, #x, #w], result_shardings = [#x, #w]} {
    %gx = nn.linear %g, %w {transposed, shardings = [#x]} : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
    %gw = nn.linear_grad_weight %x, %g init %sum {shardings = [#w]} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nn.return %gx, %gw : tensor<1x2x8xf32>, tensor<8x8xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 2 ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
  nn.step @train(%ids: tensor<2x1x2xi32>, %labels: tensor<2x1x2xi32>, %lr: tensor<f32>, %b1: tensor<f32>, %b2: tensor<f32>) -> (tensor<f32>, tensor<f32>)
      attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<lr>, #nn.port<value, "b1">, #nn.port<value, "b2">], outputs = [#nn.port<loss>, #nn.port<grad_norm>],
                  arg_shardings = [#x, #x, #none, #none, #none], result_shardings = [#none, #none]} {
    %count = nn.count_labels %labels {shardings = [#none]} : (tensor<2x1x2xi32>) -> tensor<f32>
    %once = nn.loss_scale %count {shardings = [#none]} : (tensor<f32>) -> tensor<f32>
    nn.set @train.scale, %once : tensor<f32>
    %zero = nn.fill 0.0 {shardings = [#none]} : () -> tensor<f32>
    nn.set @train.loss, %zero : tensor<f32>
    %clear = nn.fill 0.0 {shardings = [#flat]} : () -> tensor<192xf32>
    nn.set @gradients, %clear : tensor<192xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %rows = nn.micro_batch %ids[%i] : tensor<2x1x2xi32> -> tensor<1x2xi32>
      %wanted = nn.micro_batch %labels[%i] : tensor<2x1x2xi32> -> tensor<1x2xi32>
      %e = nn.get @e : tensor<4x8xf32>
      %x = nn.embedding %e[%rows] {shardings = [#x]} : (tensor<4x8xf32>, tensor<1x2xi32>) -> tensor<1x2x8xf32>
      %a = nn.get @a : tensor<8x8xf32>
      %y = nn.call @layer.fwd(%x, %a) path "h.0" : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
      %b = nn.get @b : tensor<8x8xf32>
      %z = nn.call @layer.fwd(%y, %b) path "h.1" : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
      %logits = nn.linear %z, %e {transposed, shardings = [#x]} : (tensor<1x2x8xf32>, tensor<4x8xf32>) -> tensor<1x2x4xf32>
      %losses, %lse = nn.cross_entropy %logits, %wanted {shardings = [#w, #w]} : (tensor<1x2x4xf32>, tensor<1x2xi32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
      %scale = nn.get @train.scale : tensor<f32>
      %weights = nn.token_weights %wanted scale %scale {shardings = [#w]} : (tensor<1x2xi32>, tensor<f32>) -> tensor<1x2xf32>
      %g = nn.cross_entropy_grad %logits, %wanted, %lse, %weights {shardings = [#x]} : (tensor<1x2x4xf32>, tensor<1x2xi32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2x4xf32>
      %gz = nn.linear %g, %e {shardings = [#x]} : (tensor<1x2x4xf32>, tensor<4x8xf32>) -> tensor<1x2x8xf32>
      %ge = nn.get @e.grad : tensor<4x8xf32>
      %head = nn.linear_grad_weight %z, %g init %ge {transposed, shardings = [#w]} : (tensor<1x2x8xf32>, tensor<1x2x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %gb = nn.get @b.grad : tensor<8x8xf32>
      %gy, %newb = nn.call @layer.bwd(%y, %b, %gz, %gb) path "h.1" : (tensor<1x2x8xf32>, tensor<8x8xf32>, tensor<1x2x8xf32>, tensor<8x8xf32>) -> (tensor<1x2x8xf32>, tensor<8x8xf32>)
      nn.set @b.grad, %newb : tensor<8x8xf32>
      %ga = nn.get @a.grad : tensor<8x8xf32>
      %gx, %newa = nn.call @layer.bwd(%x, %a, %gy, %ga) path "h.0" : (tensor<1x2x8xf32>, tensor<8x8xf32>, tensor<1x2x8xf32>, tensor<8x8xf32>) -> (tensor<1x2x8xf32>, tensor<8x8xf32>)
      nn.set @a.grad, %newa : tensor<8x8xf32>
      %both = nn.embedding_grad %gx[%rows] init %head {shardings = [#w]} : (tensor<1x2x8xf32>, tensor<1x2xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      nn.set @e.grad, %both : tensor<4x8xf32>
      %before = nn.get @train.loss : tensor<f32>
      %mean = nn.sum %losses weights %weights init %before {shardings = [#none]} : (tensor<1x2xf32>, tensor<1x2xf32>, tensor<f32>) -> tensor<f32>
      nn.set @train.loss, %mean : tensor<f32>
      nn.return
    }
    %loss = nn.get @train.loss : tensor<f32>
    %gradients = nn.get @gradients : tensor<192xf32>
    %norm = nn.global_norm %gradients {shardings = [#none]} : (tensor<192xf32>) -> tensor<f32>
    %p = nn.get @parameters : tensor<192xf32>
    %m = nn.get @exp_avg : tensor<192xf32>
    %v = nn.get @exp_avg_sq : tensor<192xf32>
    %newp, %newm, %newv = nn.update "adamw" %p, %gradients states(%m, %v) with(%lr, %b1, %b2) {shardings = [#flat, #flat, #flat]} : (tensor<192xf32>, tensor<192xf32>, tensor<192xf32>, tensor<192xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<192xf32>, tensor<192xf32>, tensor<192xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
    nn.set @parameters, %newp : tensor<192xf32>
    nn.set @exp_avg, %newm : tensor<192xf32>
    nn.set @exp_avg_sq, %newv : tensor<192xf32>
    nn.return %loss, %norm : tensor<f32>, tensor<f32>
  }
  nn.step @generate(%ids: tensor<1x2xi32>) -> tensor<1x2x4xf32>
      attributes {kind = #nn.program<generate>, inputs = [#nn.port<ids>], outputs = [#nn.port<logits>],
                  arg_shardings = [#w], result_shardings = [#x]} {
    %e = nn.get @e : tensor<4x8xf32>
    %x = nn.embedding %e[%ids] {shardings = [#x]} : (tensor<4x8xf32>, tensor<1x2xi32>) -> tensor<1x2x8xf32>
    %a = nn.get @a : tensor<8x8xf32>
    %y = nn.call @layer.fwd(%x, %a) path "h.0" : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
    %b = nn.get @b : tensor<8x8xf32>
    %z = nn.call @layer.fwd(%y, %b) path "h.1" : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
    %logits = nn.linear %z, %e {transposed, shardings = [#x]} : (tensor<1x2x8xf32>, tensor<4x8xf32>) -> tensor<1x2x4xf32>
    nn.return %logits : tensor<1x2x4xf32>
  }
}
