// Result of one task: all numbers about it beside its update, and the one list of their columns. The list defines the
// fields of a site's record (federated/updates/task_columns.h) and the packed tasks of a closed attempt
// (coordinator/ledger/packed_tasks.h). It also defines the table `task` with its migrations, and the view
// `client_rounds` (coordinator/history). A new column is a member, a line of kTaskColumns, and the code that sets it.
//
// Measured times are outside the update's bytes and identity, so that the same training gives the same of both.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "engine/base/sha256.h"

namespace rivulet {

// Members that are not known are nullopt, 0 or false. Types that have more to say of a task derive from this one.
struct TaskResult {
  std::optional<int64_t> examples, steps;  // trained on
  std::optional<double> train_loss;        // mean over the examples of the last epoch
  std::optional<double> update_norm;       // L2 norm of the delta
  std::optional<Digest> update_digest;     // identity of the update as it was uploaded
  std::optional<int64_t> weight;           // in the mean
  int64_t bytes_down = 0, bytes_up = 0;    // of plan and model fetched for this task; of whole uploads
  std::optional<double> wait_seconds;      // from the offer until the client took it
  std::optional<double> train_seconds;
  std::optional<double> upload_seconds;  // from the first byte to the last
  std::optional<double> fold_seconds;    // of a site that folds
  int64_t lanes = 0;                     // tasks that a device trained at once with this one; 0: on the host
  bool tf32 = false;                     // trained with factors rounded to TF32

  TaskResult& result() { return *this; }
  const TaskResult& result() const { return *this; }
  bool operator==(const TaskResult&) const = default;
};

enum class StatedBy {
  kClient,       // a scalar of that name, declared beside the update
  kSite,         // the process that trains or folds; it travels as a field of its record
  kCoordinator,  // which observes it
};

template <typename Value>
struct TaskColumn {
  const char* name;
  Value TaskResult::*member;
  StatedBy by;
  int field;    // of kSite: its number in a record (TaskRecordProto), never used again; else 0
  int history;  // version of the history that stores it first; 0: it is not stored
};
// For compilers that deduce nothing of an aggregate: clang before 17, which builds the fuzz targets.
template <typename Value>
TaskColumn(const char*, Value TaskResult::*, StatedBy, int, int) -> TaskColumn<Value>;

// Stored columns are in the order of the table `task`, where later versions add theirs at the end. One that a later
// version adds is optional: earlier rows do not have it.
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

// Whether a member has a value that is known.
template <typename T>
bool IsKnown(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value != T();
  } else {
    return value.has_value();
  }
}

// The value of a member that is known, and of an empty one the place that takes it.
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

// Copies the columns that client and site state. Those of the coordinator stay.
inline void CopyStated(const TaskResult& from, TaskResult& to) {
  ForEachTaskColumn([&](const auto& column) {
    if (column.by != StatedBy::kCoordinator) to.*(column.member) = from.*(column.member);
  });
}

}  // namespace rivulet
