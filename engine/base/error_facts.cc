#include "engine/base/error_facts.h"

namespace rivulet {
namespace {

std::string UrlOf(std::string_view name) { return fmt::format("rivulet/fact/{}", name); }

}  // namespace

Status WithFact(Status status, std::string_view name, std::string_view value) {
  if (status.ok()) return status;
  const std::string url = UrlOf(name);
  if (!status.GetPayload(url)) status.SetPayload(url, absl::Cord(ToAbsl(value)));
  return status;
}

std::string FactOf(const Status& status, std::string_view name) {
  const auto value = status.GetPayload(UrlOf(name));
  return value ? std::string(*value) : "";
}

}  // namespace rivulet
