// Result of one task: all numbers about it besides its update, and the list of their columns. The list defines the
// fields of a site's record (federated/updates/task_columns.h) and the packed tasks of a closed attempt
// (coordinator/ledger/packed_tasks.h). It also defines the table `task` with its migrations, and the view
// `client_rounds` (coordinator/history). A new column is a member, a line of kTaskColumns, and the code that sets it.
//
// Measured times are not part of the update's bytes and identity: the same training gives equal ones.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "engine/base/sha256.h"

namespace rivulet {

// Unknown members are nullopt, 0 or false. Types with more data about a task derive from this one.
struct TaskResult {
  std::optional<int64_t> examples, steps;  // trained on
  std::optional<double> train_loss;        // mean over the examples of the last epoch
  std::optional<double> update_norm;       // L2 norm of the delta
  std::optional<Digest> update_digest;     // identity of the update as uploaded
  std::optional<int64_t> weight;           // in the mean
  int64_t bytes_down = 0, bytes_up = 0;    // of the plan and model fetched for this task; of complete uploads
  std::optional<double> wait_seconds;      // from the offer until the client accepted it
  std::optional<double> train_seconds;
  std::optional<double> upload_seconds;  // from the first byte to the last
  std::optional<double> fold_seconds;    // of a site that aggregates
  int64_t lanes = 0;                     // tasks that a device trained at once, including this one; 0: on the host
  bool tf32 = false;                     // trained with factors rounded to TF32

  TaskResult& result() { return *this; }
  const TaskResult& result() const { return *this; }
  bool operator==(const TaskResult&) const = default;
};

enum class StatedBy {
  kClient,       // a scalar of that name, declared with the update
  kSite,         // the process that trains or aggregates; sent as a field of its record
  kCoordinator,  // the coordinator observes it
};

template <typename Value>
struct TaskColumn {
  const char* name;
  Value TaskResult::*member;
  StatedBy by;
  int field;    // for kSite: its field number in a record (TaskRecordProto), never reused; else 0
  int history;  // the first history version that stores it; 0: not stored
};
// For compilers without class template argument deduction for aggregates: clang before 17, used for fuzz targets.
template <typename Value>
TaskColumn(const char*, Value TaskResult::*, StatedBy, int, int) -> TaskColumn<Value>;

// Stored columns are in the order of the table `task`, where later versions append theirs. A column from a later
// version is optional: earlier rows lack it.
inline constexpr auto kTaskColumns =
    std::tuple(TaskColumn{"examples", &TaskResult::examples, StatedBy::kClient, 0, 1},
               TaskColumn{"steps", &TaskResult::steps, StatedBy::kClient, 0, 1},
               TaskColumn{"train_loss", &TaskResult::train_loss, StatedBy::kClient, 0, 1},
               TaskColumn{"update_norm", &TaskResult::update_norm, StatedBy::kSite, 3, 1},
               TaskColumn{"update_digest", &TaskResult::update_digest, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"weight", &TaskResult::weight, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"bytes_down", &TaskResult::bytes_down, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"bytes_up", &TaskResult::bytes_up, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"wait_seconds", &TaskResult::wait_seconds, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"train_seconds", &TaskResult::train_seconds, StatedBy::kSite, 4, 1},
               TaskColumn{"upload_seconds", &TaskResult::upload_seconds, StatedBy::kCoordinator, 0, 1},
               TaskColumn{"fold_seconds", &TaskResult::fold_seconds, StatedBy::kSite, 5, 0},
               TaskColumn{"lanes", &TaskResult::lanes, StatedBy::kSite, 6, 0},
               TaskColumn{"tf32", &TaskResult::tf32, StatedBy::kSite, 7, 0});

template <typename Each>
constexpr void ForEachTaskColumn(Each&& each) {
  std::apply([&](const auto&... column) { (each(column), ...); }, kTaskColumns);
}

// Returns true if a member has a known value.
template <typename T>
bool IsKnown(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value != T();
  } else {
    return value.has_value();
  }
}

// The value of a known member; for an empty one, the memory for a new value.
template <typename T>
auto& ValueIn(T& member) {
  if constexpr (std::is_arithmetic_v<std::remove_const_t<T>>) {
    return member;
  } else if constexpr (std::is_const_v<T>) {
    return *member;
  } else {
    return member ? *member : member.emplace();
  }
}

// Copies the columns that client and site report. Those of the coordinator are unchanged.
inline void CopyStated(const TaskResult& from, TaskResult& to) {
  ForEachTaskColumn([&](const auto& column) {
    if (column.by != StatedBy::kCoordinator) to.*(column.member) = from.*(column.member);
  });
}

}  // namespace rivulet
