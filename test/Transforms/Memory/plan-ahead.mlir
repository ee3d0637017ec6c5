// RUN: sed 's/50x50/100x100/g; s/2560/10048/g' %S/../Spmd/stream-states.mlir > %t.mlir
// RUN: heddle-opt %t.mlir --spmd-stream-states --fuse-form-kernels -o %t.fused
// RUN: sed 's/place = {sub_group_size = 1000}/memory_budget = 1048576, &/' %t.fused > %t.all
// RUN: heddle-opt %t.fused --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=FREE
// RUN: sed 's/memory_budget = 1048576/memory_budget = 145000/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ROOM
// RUN: heddle-opt %t.all --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ALL
// RUN: sed 's/memory = #nn<memory file>/memory = #nn<memory host>/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=ALL
// RUN: sed 's/\( *dist.store @exp_avg.all\)\[0\]\(.*\)/&\n\1[8192]\2/' %t.all | heddle-opt --memory-plan --memory-verify | FileCheck %s --check-prefix=AGAIN
// RUN: sed 's/nn.set @w.grad, .*/&\n%%z = nn.fill 0.0 : () -> tensor<1024xf32>\ndist.store @exp_avg.all[8192], %%z : tensor<1024xf32>\ndist.flush 0/; s/place = {/memory_budget = 1048576, &/' %t.mlir | heddle-opt --spmd-stream-states --fuse-form-kernels --memory-plan --memory-verify | FileCheck %s --check-prefix=OTHERS

// Ten tiles, of which the frame has room for three. The first two are fetched
// before the loop: its memory is the frame's anyway.

// FREE: arena_bytes = #plan.bytes<device 53248>
// FREE: plan.sequence @train
// FREE-COUNT-2: plan.copy {{.*}} on copy
// FREE-NOT: plan.copy {{.*}} on copy
// FREE: plan.loop
// FREE: plan.launch @momentum
// FREE: plan.copy {{.*}} on store
// FREE: plan.copy {{.*}} on copy
// FREE: plan.launch @momentum

// With room for two more, each tile is fetched two earlier.
// ROOM: arena_bytes = #plan.bytes<device 61440>
// ROOM: plan.sequence @train
// ROOM-COUNT-4: plan.copy {{.*}} on copy
// ROOM-NOT: plan.copy {{.*}} on copy
// ROOM: plan.loop
// ROOM: plan.launch @momentum
// ROOM: plan.copy {{.*}} on store
// ROOM: plan.copy {{.*}} on copy
// ROOM: plan.launch @momentum

// ALL: plan.sequence @train
// ALL-COUNT-10: plan.copy {{.*}} on copy
// ALL: plan.loop
// ALL: plan.launch @momentum
// ALL: plan.copy {{.*}} on store
// ALL-NEXT: plan.record store
// ALL-NOT: plan.copy
// ALL: plan.launch @momentum

// A tile that is written in between is fetched behind that.
// AGAIN: plan.sequence @train
// AGAIN-COUNT-9: plan.copy {{.*}} on copy
// AGAIN-NOT: plan.copy {{.*}} on copy
// AGAIN: plan.loop
// AGAIN: plan.launch @momentum
// AGAIN-COUNT-2: plan.copy {{.*}} on store
// AGAIN-NEXT: %[[STORED:.*]] = plan.record store
// AGAIN: plan.wait %[[STORED]] on copy
// AGAIN: plan.copy {{.*}} on copy
// AGAIN: plan.launch @momentum

// What the loop stores is not held up by tiles.
// OTHERS: plan.sequence @train
// OTHERS-NOT: plan.copy {{.*}} on copy
// OTHERS: plan.loop
// OTHERS: plan.copy {{.*}} on store
// OTHERS-COUNT-10: plan.copy {{.*}} on copy
// OTHERS: plan.launch @momentum
