#include "federated/transport/allow_list.h"

#include "engine/base/display_name.h"

namespace rivulet {

StatusOr<std::set<std::string, std::less<>>> ParseClientNames(std::string_view text, std::string_view where) {
  std::set<std::string, std::less<>> names;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    RIVULET_RETURN_IF_ERROR(CheckDisplayName(fmt::format("line {} of '{}'", number, where), line));
    if (!names.emplace(line).second) {
      return InvalidArgument("line {} of '{}' names '{}' again; each client stands there once", number, where, line);
    }
  }
  if (names.empty()) return InvalidArgument("'{}' has no names; write a client's name on each line", where);
  return names;
}

StatusOr<std::unique_ptr<AllowList>> AllowList::Open(CoordinatorApi& api, FileSystem& fs, const std::string& path,
                                                     std::function<void(const std::string&)> tell,
                                                     AdmissionHooks hooks) {
  auto admission = std::unique_ptr<AllowList>(new AllowList(api, fs, path, std::move(tell), std::move(hooks)));
  RIVULET_RETURN_IF_ERROR(admission->Read());
  return admission;
}

Status AllowList::Read() {
  RIVULET_ASSIGN_OR_RETURN(std::string text, fs_.ReadAll(path_));
  MutexLock lock(mutex_);
  if (text == text_) return absl::OkStatus();
  text_ = std::move(text);
  RIVULET_ASSIGN_OR_RETURN(names_, ParseClientNames(text_, path_));
  return absl::OkStatus();
}

Status AllowList::Admit(const Caller& caller) {
  {
    MutexLock lock(mutex_);
    if (names_.contains(caller.name) || aggregators_.contains(caller.name)) return absl::OkStatus();
  }
  if (const Status read = Read(); !read.ok()) {
    teller_.Tell(fmt::format("the list of clients could not be read again: {}", Message(read)));
  } else {
    MutexLock lock(mutex_);
    if (names_.contains(caller.name)) return absl::OkStatus();
  }
  if (hooks_.approved && hooks_.approved(caller.name)) return absl::OkStatus();
  if (hooks_.on_stranger && CheckDisplayName("a client's name", caller.name).ok()) hooks_.on_stranger(caller.name);
  const std::string name = DisplayText(caller.name, 80);
  teller_.Tell(
      fmt::format("refused client '{}', which is not expected; to admit it, add its name to '{}'", name, path_));
  return PermissionDenied("client '{}' is not expected here; ask the coordinator's operator to add it to the list",
                          name);
}

// An aggregator is authenticated, but each client that it serves must still be on the list.
StatusOr<PollReply> AllowList::Poll(const PollRequest& request) {
  if (request.serves.kind != Serves::Kind::kNames) {
    RIVULET_RETURN_IF_ERROR(Admit(request.caller));
    return api_.Poll(request);
  }
  PollRequest admitted = request;
  std::vector<RefusedName> refused;
  std::erase_if(admitted.serves.names, [&](const ServedName& served) {
    Status status = Admit({.name = served.name});
    const bool stranger = !status.ok();
    if (stranger) refused.push_back({served.name, std::move(status)});
    return stranger;
  });
  RIVULET_ASSIGN_OR_RETURN(PollReply reply, api_.Poll(admitted));
  reply.refused_names.insert(reply.refused_names.end(), refused.begin(), refused.end());
  MutexLock lock(mutex_);
  aggregators_.insert(request.caller.name);
  return reply;
}

StatusOr<std::unique_ptr<ChunkReader>> AllowList::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  RIVULET_RETURN_IF_ERROR(Admit(caller));
  return api_.Fetch(caller, blob, offset);
}

StatusOr<std::unique_ptr<ChunkWriter>> AllowList::Submit(const Caller& caller, const Submission& submission) {
  RIVULET_RETURN_IF_ERROR(Admit(caller));
  return api_.Submit(caller, submission);
}

Status AllowList::Fail(const Caller& caller, const TaskFailure& failure) {
  RIVULET_RETURN_IF_ERROR(Admit(caller));
  return api_.Fail(caller, failure);
}

}  // namespace rivulet
