// Checks of a task's inputs, besides its data, against its plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "client/training/buffer_table.h"
#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// Check of base models' layouts. Equal layouts are compared once, because that takes hashing; in one process the base
// model shares the coordinator's layout.
class KnownLayout {
 public:
  explicit KnownLayout(const Plan& plan) : plan_(plan), known_(plan.layout()) {}
  // INVALID_ARGUMENT: the layout is not the plan's.
  Status Check(const Model& base);

 private:
  const Plan& plan_;
  std::shared_ptr<const ModelLayout> known_;  // the last one found equal to the plan's
};

// FAILED_PRECONDITION: no examples. INVALID_ARGUMENT: too many to be counted.
Status CheckExamples(std::string_view client_id, int64_t examples, TaskKind kind);

// INVALID_ARGUMENT: other vectors than such a task of the plan reads (Plan::reads_broadcasts), or of another size.
Status CheckBroadcasts(const Plan& plan, const BufferTable& table, TaskKind kind,
                       std::span<const AlignedBuffer* const> broadcasts);

}  // namespace rivulet
