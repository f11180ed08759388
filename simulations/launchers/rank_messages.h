// Messages between rank 0 and the others. Both sides write and read the fields in this order. Texts are bytes.
//
//   rank 0: kJoin     invitation, plan             others: error ("": none), threads, their training device
//           kStep     gatherings; inputs: (id, 0, bytes) or, of the last step's, (id, 1)
//                     then to each its tasks: (task, state) …
//                                                  others: error, failures, (client, task, state) …
//           kDismiss                               others end
#pragma once

#include <cstdint>

#include "simulations/launchers/local_task_server.h"
#include "simulations/launchers/packed.h"
#include "simulations/launchers/task_packing.h"

namespace rivulet {

enum class RankOrder : int64_t { kDismiss = 0, kJoin = 1, kStep = 2 };

inline void Put(Packer& to, const TaskGathering& gathering) {
  to.Number(gathering.gather).Number(static_cast<int64_t>(gathering.kind)).Number(gathering.base_version);
}
inline TaskGathering TakeGathering(Unpacker& from) {
  const auto gather = from.Number<uint64_t>();
  const auto kind = from.OneOf(TaskKind::kEvaluate);
  return {gather, kind, from.Number<int64_t>()};
}

}  // namespace rivulet
