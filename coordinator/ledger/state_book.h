// Which task's proposal is each client's state: its newest that is folded into a version that is ready. Of clients that
// were never folded, nothing. A pure value; a name and 24 bytes a client. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "federated/tasks/task.h"

namespace rivulet {

class StateBook {
 public:
  explicit StateBook(std::string run_id) : run_id_(std::move(run_id)) {}

  // Later ones come later. A task of another run changes nothing.
  void Folded(const TaskId& task);
  // Its state was lost: it begins anew.
  void Lost(const std::string& client_id) { newest_.erase(client_id); }
  // "": it has none yet.
  TaskId Of(const std::string& client_id) const;

 private:
  struct Newest {
    int64_t round = 0, attempt = 0, ordinal = 0;
  };
  const std::string run_id_;
  std::unordered_map<std::string, Newest> newest_;
};

}  // namespace rivulet
