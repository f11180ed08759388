#include "engine/graph/device_name.h"

#include <algorithm>
#include <charconv>

namespace rivulet {
namespace {

// Longer than any real name; limits the text that errors repeat.
constexpr size_t kMaxLength = 512;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsWordChar(char c) { return IsLetter(c) || (c >= '0' && c <= '9') || c == '_'; }

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

// Parser of one name; `text` is the whole name, for errors.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  StatusOr<DeviceName> Parse() {
    if (text_.size() > kMaxLength)
      return InvalidArgument("a device name of {} characters is refused; at most {} are read", text_.size(),
                             kMaxLength);
    std::string_view rest = text_;
    if (rest.starts_with('/')) rest.remove_prefix(1);
    while (!rest.empty()) {
      const size_t slash = rest.find('/');
      const std::string_view part = rest.substr(0, slash);
      RIVULET_RETURN_IF_ERROR(ReadPart(part));
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
      if (rest.empty()) return InvalidArgument("the device name '{}' ends with '/'; drop it", Shown());
    }
    return name_;
  }

 private:
  // Bytes that are not text are replaced in messages.
  std::string Shown() const { return Shown(text_); }
  static std::string Shown(std::string_view text) {
    std::string shown(text);
    for (char& c : shown)
      if (c < ' ' || c > '~') c = '?';
    return shown;
  }

  Status Once(bool& seen, std::string_view what) {
    if (seen) return InvalidArgument("the device name '{}' states its {} twice; keep one", Shown(), what);
    seen = true;
    return absl::OkStatus();
  }

  Status ReadPart(std::string_view part) {
    const size_t colon = part.find(':');
    const std::string_view key = part.substr(0, colon);
    const bool has_value = colon != std::string_view::npos;
    const std::string_view value = has_value ? part.substr(colon + 1) : std::string_view();
    const bool legacy = EqualsIgnoringCase(key, "cpu") || EqualsIgnoringCase(key, "gpu");
    if (legacy) {
      RIVULET_RETURN_IF_ERROR(Once(seen_device_, "device"));
      SetType(key);
      return has_value ? ReadNumber("number", value, name_.id) : absl::OkStatus();
    }
    if (key != "job" && key != "replica" && key != "task" && key != "device")
      return InvalidArgument(
          "the device name '{}' has a part '{}'; parts are /job:, /replica:, /task: and /device:, as in "
          "/job:worker/replica:0/task:3/device:CPU:0",
          Shown(), Shown(part));
    if (!has_value)
      return InvalidArgument("the device name '{}' gives no value for '{}'; write '/{}:…' or '*'", Shown(), key, key);
    if (key == "job") {
      RIVULET_RETURN_IF_ERROR(Once(seen_job_, "job"));
      if (value == "*") return absl::OkStatus();
      if (value.empty() || !IsLetter(value.front()) || !std::ranges::all_of(value, IsWordChar))
        return InvalidArgument(
            "the device name '{}' has a job '{}'; a job is a letter and then letters, digits and '_', or '*'", Shown(),
            Shown(value));
      name_.job = std::string(value);
      return absl::OkStatus();
    }
    if (key == "replica") {
      RIVULET_RETURN_IF_ERROR(Once(seen_replica_, "replica"));
      return ReadNumber("replica", value, name_.replica);
    }
    if (key == "task") {
      RIVULET_RETURN_IF_ERROR(Once(seen_task_, "task"));
      return ReadNumber("task", value, name_.task);
    }
    RIVULET_RETURN_IF_ERROR(Once(seen_device_, "device"));
    const size_t second = value.find(':');
    const std::string_view type = value.substr(0, second);
    if (type != "*") {
      if (type.empty() || !(IsLetter(type.front()) || type.front() == '_') || !std::ranges::all_of(type, IsWordChar))
        return InvalidArgument(
            "the device name '{}' has a device type '{}'; a type is a letter and then letters, digits and '_' (CPU), "
            "or '*'",
            Shown(), Shown(type));
      SetType(type);
    }
    if (second == std::string_view::npos) return absl::OkStatus();
    return ReadNumber("number", value.substr(second + 1), name_.id);
  }

  void SetType(std::string_view type) {
    name_.type = EqualsIgnoringCase(type, "cpu") ? "CPU" : EqualsIgnoringCase(type, "gpu") ? "GPU" : std::string(type);
  }

  Status ReadNumber(std::string_view what, std::string_view digits, std::optional<int>& out) {
    if (digits == "*") return absl::OkStatus();
    int number = 0;
    const bool all_digits = !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (!all_digits || error != std::errc() || end != digits.data() + digits.size())
      return InvalidArgument("the device name '{}' has a {} '{}'; it is a number from 0 to 2147483647, or '*'", Shown(),
                             what, Shown(digits));
    out = number;
    return absl::OkStatus();
  }

  std::string_view text_;
  DeviceName name_;
  bool seen_job_ = false, seen_replica_ = false, seen_task_ = false, seen_device_ = false;
};

template <typename T>
bool Covers(const std::optional<T>& pattern, const std::optional<T>& part) {
  return !pattern || pattern == part;
}
template <typename T>
bool Clash(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

}  // namespace

std::string DeviceName::ToString() const {
  std::string text;
  if (job) text += "/job:" + *job;
  if (replica) text += fmt::format("/replica:{}", *replica);
  if (task) text += fmt::format("/task:{}", *task);
  if (type || id) text += fmt::format("/device:{}:{}", type ? *type : "*", id ? std::to_string(*id) : "*");
  return text;
}

StatusOr<DeviceName> ParseDeviceName(std::string_view text) { return Parser(text).Parse(); }

bool IsSpecificationOf(const DeviceName& pattern, const DeviceName& name) {
  return Covers(pattern.job, name.job) && Covers(pattern.replica, name.replica) && Covers(pattern.task, name.task) &&
         Covers(pattern.type, name.type) && Covers(pattern.id, name.id);
}

bool AreCompatible(const DeviceName& a, const DeviceName& b) {
  return !Clash(a.job, b.job) && !Clash(a.replica, b.replica) && !Clash(a.task, b.task) && !Clash(a.type, b.type) &&
         !Clash(a.id, b.id);
}

StatusOr<DeviceName> MergeDevices(const DeviceName& a, const DeviceName& b, bool soft) {
  const auto differ = [&](std::string_view part) {
    return InvalidArgument("the devices '{}' and '{}' differ in their {}", a.ToString(), b.ToString(), part);
  };
  if (Clash(a.job, b.job)) return differ("job");
  if (Clash(a.replica, b.replica)) return differ("replica");
  if (Clash(a.task, b.task)) return differ("task");
  DeviceName merged = OverrideDevice(a, b);
  if (Clash(a.type, b.type)) {
    if (!soft) return differ("type");
    merged.type.reset();
    merged.id.reset();
  } else if (Clash(a.id, b.id)) {
    if (!soft) return differ("number");
    merged.id.reset();
  }
  return merged;
}

DeviceName OverrideDevice(const DeviceName& outer, const DeviceName& inner) {
  DeviceName merged = outer;
  if (inner.job) merged.job = inner.job;
  if (inner.replica) merged.replica = inner.replica;
  if (inner.task) merged.task = inner.task;
  if (inner.type) merged.type = inner.type;
  if (inner.id) merged.id = inner.id;
  return merged;
}

}  // namespace rivulet
