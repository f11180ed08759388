#include "client/training/graph_numbers.h"

#include <cmath>

namespace rivulet {

Status GraphNumbers::Begin(const Task& task, Scalars& declared) {
  SetRound(task.base_version);
  const FlatNames& names = plan_.flat_names();
  for (size_t i = 0; task.kind == TaskKind::kTrain && i < names.numbers.size(); ++i) {
    const std::string& name = names.numbers[i];
    const auto told = task.numbers.find(name);
    if (told == task.numbers.end() || !std::isfinite(told->second)) {
      return InvalidArgument("the task has no number '{}', which plan '{}' reads", name, plan_.name());
    }
    numbers_[table_.number(i)] = told->second;
    declared[name] = told->second;
  }
  for (size_t i = 0; i < names.measured.size(); ++i) numbers_[table_.measured(i)] = 0;
  for (size_t i = 0; i < names.declared.size(); ++i) numbers_[table_.declared(i)] = 0;
  return absl::OkStatus();
}

void GraphNumbers::Tell(const Scalars& declared) {
  const std::vector<std::string>& names = plan_.flat_names().measured;
  for (size_t i = 0; i < names.size(); ++i) {
    if (const auto told = declared.find(names[i]); told != declared.end()) numbers_[table_.measured(i)] = told->second;
  }
}

void GraphNumbers::Declare(const Task& task, Scalars& declared) const {
  if (task.kind != TaskKind::kTrain) return;
  const std::vector<std::string>& names = plan_.flat_names().declared;
  for (size_t i = 0; i < names.size(); ++i) declared[names[i]] = numbers_[table_.declared(i)];
}

}  // namespace rivulet
