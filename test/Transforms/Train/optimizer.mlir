// RUN: heddle-opt %s --train-optimizer | FileCheck %s
// RUN: sed 's/gradient_clipping = 0.5/gradient_clipping = 0.0/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=UNCLIPPED
// RUN: sed 's/decoupled = true/decoupled = false/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=COUPLED
// RUN: sed 's/precision = fp32/precision = bf16/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=BF16
// RUN: sed 's/accumulate = 1/accumulate = 2/; s/global = 1/global = 2/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=SUMS

// RUN: sed 's/strategy = #dist.strategy<{/strategy = #dist.strategy<{place = {delayed_update = true}, /' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=DELAYED
// RUN: sed 's/optimizer = {beta1/optimizer = {type = Lion, beta1/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=LION
// RUN: sed 's/optimizer = {beta1/optimizer = {type = Lamb, beta1/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=LAMB
// RUN: sed 's/optimizer = {beta1/optimizer = {group = ["^a$:lr=0.5", "b:weight_decay=0.75"], beta1/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/strategy = #dist.strategy<{/strategy = #dist.strategy<{loss_scale = {value = dynamic, window = 7, hysteresis = 3, min = 0.5}, /; s/nn.state @a role/nn.state @loss_scale role optimizer : tensor<f32> nn.state @loss_scale_hysteresis role optimizer : tensor<f32> nn.state @loss_scale_steps role optimizer : tensor<f32> nn.state @a role/' %s | heddle-opt --train-optimizer | FileCheck %s --check-prefix=SCALE

// The loss scale of this step divides gradients together with the factor of clipping.
// SCALE: %[[NORM:.*]] = nn.global_norm
// SCALE: %[[S:.*]] = nn.get @loss_scale : tensor<f32>
// SCALE: %[[FACTOR:.*]] = nn.map (%[[X:.*]] = %[[NORM]], %[[MOST:.*]] = %{{.*}}, %[[Y:.*]] = %[[S]])
// SCALE: %[[N:.*]] = arith.divf %[[X]], %[[Y]] : f64
// SCALE: arith.addf %[[N]]
// SCALE: %[[LEAST:.*]] = arith.minimumf
// SCALE: arith.divf %[[LEAST]], %[[Y]] : f64
// SCALE: %[[NEXT:.*]], %[[LEFT:.*]], %[[STEPS:.*]], %[[ENDED:.*]], %[[MAY:.*]] = nn.advance_loss_scale %[[S]], %{{.*}}, %{{.*}}, %{{.*}} of(%[[NORM]], %[[FACTOR]]{{.*}}) {hysteresis = 3 : i64, least = 5.000000e-01 : f64, window = 7 : i64}
// SCALE: nn.set @loss_scale, %[[NEXT]]
// SCALE: nn.set @loss_scale_hysteresis, %[[LEFT]]
// SCALE: nn.set @loss_scale_steps, %[[STEPS]]
// SCALE: nn.set @nonfinite, %[[ENDED]]
// SCALE: %[[CONDITION:.*]] = nn.map (%{{.*}} = %[[MAY]]
// SCALE: nn.count_update %{{.*}} if %[[CONDITION]]
// SCALE: nn.update "adamw" {{.*}}%[[FACTOR]]{{.*}} if %[[CONDITION]]
// SCALE: return {{.*}}%[[NORM]]

// The gradients of the step before are a state; what they are multiplied by, and whether they
// are there, are others.
// DELAYED: nn.state @a.delayed_gradient role optimizer : tensor<8x4xf32> {checkpointed
// DELAYED: nn.state @delayed_labels role optimizer : tensor<f32> {checkpointed}
// DELAYED: nn.state @delayed_clip role optimizer : tensor<f32> {checkpointed}
// DELAYED: %[[NOW:.*]] = nn.map
// The rate of a step does not wait for the update of the step before.
// DELAYED: %[[CONDITION:.*]] = nn.map (%{{.*}} = %
// DELAYED: nn.count_update %{{.*}} if %[[CONDITION]]
// DELAYED: %[[LABELS:.*]] = nn.get @delayed_labels
// DELAYED: %[[CLIP:.*]] = nn.get @delayed_clip
// DELAYED: nn.advance_power {{.*}} if %[[LABELS]]
// DELAYED: nn.update "adamw" {{.*}}, %[[CLIP]], %{{[^ ]*}}, %[[LABELS]]) : {{.*}} -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
// DELAYED-NEXT: ^bb0(%{{[^:]*}}: f64, %[[G:[^:]*]]: f64
// DELAYED: arith.select
// Gradients that are not finite are kept as zeros: checkpoints hold them.
// DELAYED: %[[NONE:.*]] = arith.subf %[[G]], %[[G]] : f64
// DELAYED: %[[FINITE:.*]] = arith.cmpf ogt, %{{.*}}, %[[NONE]] : f64
// DELAYED: %[[KEEP:.*]] = arith.select %[[FINITE]], %[[G]], %{{.*}} : f64
// DELAYED: nn.return %{{.*}}, %{{.*}}, %{{.*}}, %[[KEEP]] : f64, f64, f64, f64
// DELAYED: %[[KEPT:.*]] = nn.update "delay" %[[CLIP]], %[[NOW]]
// DELAYED: nn.set @delayed_clip, %[[KEPT]]

// One state, and no powers.
// LION: nn.state @a.momentum role optimizer : tensor<8x4xf32>
// LION-NOT: advance_power
// LION: nn.update "lion" %{{.*}} states(%{{[^,]*}}) with(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) if %{{[^,]*}} :

// Norms of parameters give factors, by which the update is scaled.
// LAMB: %[[P:.*]] = nn.get @parameters.decay
// LAMB: %[[SP:.*]] = nn.segment_sums %[[P]] of @parameters.decay : (tensor<128xf32>) -> tensor<2xf32>
// LAMB: %[[U:.*]] = nn.map
// LAMB: %[[SU:.*]] = nn.segment_sums %[[U]] of @parameters.decay : (tensor<128xf32>) -> tensor<2xf32>
// LAMB: %[[F:.*]] = nn.map (%{{.*}} = %[[SP]], %{{.*}} = %[[SU]])
// LAMB: %[[SCALED:.*]] = nn.scale_segments %[[U]] by %[[F]] of @parameters.decay
// LAMB: nn.update "lamb" %[[P]], {{.*}}, %[[SCALED]])

// A group has a bucket and constants of its own.
// GROUPS: nn.bucket @parameters.decay [@c]
// GROUPS: nn.bucket @parameters.group0.decay [@a]
// GROUPS: nn.bucket @parameters.group1 [@b]
// GROUPS: nn.update "adamw" {{.*}} : (tensor<64xf32>
// GROUPS-NOT: 5.000000e-01 : f64
// GROUPS: nn.update "adamw"
// GROUPS-NEXT: ^bb0
// GROUPS-NEXT: %[[RATE:.*]] = arith.constant 5.000000e-01 : f64
// GROUPS-NEXT: arith.mulf %{{.*}}, %[[RATE]] : f64
// GROUPS: nn.update "adamw"
// GROUPS: arith.constant 7.500000e-01 : f64

// UNCLIPPED-NOT: arith.minimumf
// UNCLIPPED: nn.update "nonfinite"
// UNCLIPPED: %[[CONDITION:.*]] = nn.map
// UNCLIPPED: nn.update "adamw" {{.*}} with(%{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) if %[[CONDITION]] :
// With the decay a part of the gradient: g + decay * p.
// COUPLED: nn.update "adamw"
// COUPLED-NEXT: ^bb0(%[[P:.*]]: f64, %[[G:.*]]: f64, %{{.*}}: f64, %{{.*}}: f64, %{{.*}}: f64, %{{.*}}: f64, %{{.*}}: f64, %[[CLIP:[^:]*]]: f64, %[[DECAY:[^:]*]]: f64):
// COUPLED-NEXT: %[[CLIPPED:.*]] = arith.mulf %[[G]], %[[CLIP]] : f64
// COUPLED-NEXT: %[[PULL:.*]] = arith.mulf %[[DECAY]], %[[P]] : f64
// COUPLED-NEXT: arith.addf %[[CLIPPED]], %[[PULL]] : f64

// With several micro-batches gradients are sums: they start from zero.
// SUMS: %[[ZERO:.*]] = nn.fill 0.000000e+00 : () -> tensor<128xf32>
// SUMS: nn.set @gradients.decay, %[[ZERO]]
// SUMS: %[[ZERO:.*]] = nn.fill 0.000000e+00 : () -> tensor<64xf32>
// SUMS: nn.set @gradients.no_decay, %[[ZERO]]
// SUMS: nn.micro_batches

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 1, accumulate = 1}, precision = fp32, optimizer = {beta1 = 0.8, beta2 = 0.9, eps = 0.125, weight_decay = 0.25, decoupled = true, gradient_clipping = 0.5}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @a role parameter : tensor<8x4xf32> {trainable, decays}
  nn.state @a.grad role gradient : tensor<8x4xf32> {parameter = "a"}
  nn.state @b role parameter : tensor<4xf32> {trainable}
  nn.state @b.grad role gradient : tensor<4xf32> {parameter = "b"}
  nn.state @c role parameter : tensor<5xf32> {trainable, decays}
  nn.state @c.grad role gradient : tensor<5xf32> {parameter = "c"}
  nn.state @a.bf16 role derived : tensor<8x4xbf16> {parameter = "a"}
  nn.state @b.bf16 role derived : tensor<4xbf16> {parameter = "b"}
  nn.state @c.bf16 role derived : tensor<5xbf16> {parameter = "c"}
  // A frozen parameter is in no bucket, and the optimizer keeps nothing of it.
  nn.state @frozen role parameter : tensor<64xf32>
  // CHECK-NOT: @frozen.exp_avg
  // CHECK: nn.state @a.exp_avg role optimizer : tensor<8x4xf32> {checkpointed, decays, parameter = "a"}
  // CHECK: nn.state @a.exp_avg_sq role optimizer : tensor<8x4xf32> {checkpointed, decays, parameter = "a"}
  // CHECK-NOT: @frozen
  // Members are padded to 64 elements.
  // CHECK: nn.bucket @parameters.decay [@a, @c] : tensor<128xf32>
  // CHECK: nn.bucket @gradients.decay [@a.grad, @c.grad] : tensor<128xf32>
  // CHECK: nn.bucket @exp_avg.decay [@a.exp_avg, @c.exp_avg] : tensor<128xf32>
  // CHECK: nn.bucket @exp_avg_sq.decay [@a.exp_avg_sq, @c.exp_avg_sq] : tensor<128xf32>
  // CHECK: nn.bucket @parameters.no_decay [@b] : tensor<64xf32>
  // BF16: nn.bucket @copies.decay [@a.bf16, @c.bf16] : tensor<128xbf16>
  // BF16: nn.bucket @copies.no_decay [@b.bf16] : tensor<64xbf16>

  // CHECK: nn.state @updates role optimizer : tensor<f64>{{$}}
  // CHECK: nn.state @nonfinite role optimizer : tensor<f32>{{$}}
  // CHECK: nn.state @beta1_power role optimizer : tensor<f64> {checkpointed, init = #nn.init<power, 8.000000e-01 : f64, 0.000000e+00 : f64>}
  // CHECK: nn.state @beta2_power role optimizer : tensor<f64> {checkpointed, init = #nn.init<power, 9.000000e-01 : f64, 0.000000e+00 : f64>}
  // CHECK: nn.step @train(%[[IDS:.*]]: tensor<1xi32>, %[[RATES:.*]]: tensor<2xf32>, %[[WD:.*]]: tensor<f32>, %[[MAX:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) attributes {inputs = [#nn.port<ids>, #nn.port<lr>, #nn.port<value, "weight_decay">, #nn.port<value, "max_norm">], kind = #nn.program<train>, outputs = [#nn.port<loss>, #nn.port<grad_norm>, #nn.port<taken_lr>]} {
  // CHECK-NOT: nn.fill
  nn.step @train(%ids: tensor<1xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      nn.return
    }
    // CHECK: %[[LOSS:.*]] = nn.get @loss
    %loss = nn.get @loss : tensor<f32>
    // One norm over all gradients; one clip; one update for each bucket.
    // CHECK: %[[NORM:.*]] = nn.global_norm %{{.*}}, %{{.*}} : (tensor<128xf32>, tensor<64xf32>) -> tensor<f32>
    // The rate is that of the update that is next.
    // CHECK: %[[COUNT:.*]] = nn.get @updates : tensor<f64>
    // CHECK: %[[LR:.*]] = nn.take_rate %[[RATES]][%[[COUNT]]] : (tensor<2xf32>, tensor<f64>) -> tensor<f32>
    // CHECK: %[[CLIP:.*]] = nn.map (%[[X:.*]] = %[[NORM]], %[[MOST:.*]] = %[[MAX]])
    // CHECK: %[[EPS:.*]] = arith.constant 9.9999999999999995E-7 : f64
    // CHECK: %[[SUM:.*]] = arith.addf %[[X]], %[[EPS]] : f64
    // CHECK: %[[RATIO:.*]] = arith.divf %[[MOST]], %[[SUM]] : f64
    // CHECK: arith.minimumf %[[RATIO]]
    // Nothing is updated from the first norm or loss on that is not finite.
    // CHECK: %[[BEFORE:.*]] = nn.get @nonfinite : tensor<f32>
    // CHECK: %[[NOTED:.*]] = nn.update "nonfinite" %[[BEFORE]], %[[NORM]] with(%[[LOSS]]) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    // CHECK-NEXT: ^bb0(%[[B:.*]]: f64, %[[N:.*]]: f64, %[[L:.*]]: f64):
    // CHECK: %[[NONE:.*]] = arith.subf %[[N]], %[[N]] : f64
    // CHECK-NEXT: %[[IS:.*]] = arith.cmpf ogt, %{{.*}}, %[[NONE]] : f64
    // CHECK: %[[OF:.*]] = arith.select %[[IS]], %[[B]], %{{.*}} : f64
    // CHECK: arith.subf %[[L]], %[[L]] : f64
    // CHECK: arith.select %{{.*}}, %[[OF]], %{{.*}} : f64
    // CHECK: nn.set @nonfinite, %[[NOTED]]
    // CHECK: %[[CONDITION:.*]] = nn.map (%{{.*}} = %[[NOTED]])
    // CHECK: %[[COUNTED:.*]] = nn.count_update %[[COUNT]] if %[[CONDITION]] : (tensor<f64>, tensor<f32>) -> tensor<f64>
    // CHECK: nn.set @updates, %[[COUNTED]]
    // The powers of the betas are states.
    // CHECK: %[[POWER:.*]] = nn.get @beta1_power : tensor<f64>
    // CHECK: %[[NEXT:.*]], %[[C1:.*]] = nn.advance_power %[[POWER]] by 8.000000e-01 if %[[CONDITION]] : (tensor<f64>, tensor<f32>) -> (tensor<f64>, tensor<f32>)
    // CHECK: nn.set @beta1_power, %[[NEXT]]
    // CHECK: %{{.*}}, %[[C2:.*]] = nn.advance_power %{{.*}} by 9.000000e-01 if %[[CONDITION]] :
    // CHECK: nn.set @beta2_power
    // CHECK: %[[NEW:.*]]:3 = nn.update "adamw" %{{.*}} states(%{{.*}}, %{{.*}}) with(%[[LR]], %[[C1]], %[[C2]], %[[CLIP]], %[[WD]]) if %[[CONDITION]] : (tensor<128xf32>,
    // The weight decay is the run's.
    // CHECK-NOT: arith.constant 2.500000e-01 : f64
    // CHECK: math.sqrt
    // CHECK: arith.constant 1.250000e-01 : f64
    // CHECK: nn.return %{{.*}}, %{{.*}}, %{{.*}} : f64, f64, f64
    // CHECK: nn.set @parameters.decay, %[[NEW]]#0
    // CHECK: nn.set @exp_avg.decay, %[[NEW]]#1
    // CHECK: nn.set @exp_avg_sq.decay, %[[NEW]]#2
    // BF16: %[[NEW:.*]]:4 = nn.update "adamw" {{.*}} -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xbf16>)
    // BF16: nn.set @copies.decay, %[[NEW]]#3
    // Without weight decay there is no arithmetic for it.
    // CHECK: nn.update "adamw" {{.*}} with(%[[LR]], %[[C1]], %[[C2]], %[[CLIP]]) if %[[CONDITION]] : (tensor<64xf32>,
    // CHECK: nn.return %[[LOSS]], %[[NORM]], %[[LR]]
    nn.return %loss : tensor<f32>
  }
}
