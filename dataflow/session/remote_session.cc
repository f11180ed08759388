#include "dataflow/session/remote_session.h"

#include <map>

#include "engine/base/check.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

std::map<std::string, MakeRemoteSession, std::less<>>& RemoteSchemes() {
  static auto* const schemes = new std::map<std::string, MakeRemoteSession, std::less<>>();
  return *schemes;
}

}  // namespace

RegisterRemoteSessions::RegisterRemoteSessions(std::string scheme, MakeRemoteSession make) {
  const auto [entry, inserted] = RemoteSchemes().emplace(std::move(scheme), std::move(make));
  RIVULET_CHECK(inserted, "sessions of '{}://' are registered twice", entry->first);
}

StatusOr<std::unique_ptr<RemoteSession>> OpenRemoteSession(std::string_view graph_def, const SessionConfig& config) {
  const size_t end = config.target.find("://");
  if (end == std::string::npos)
    return InvalidArgument("the target '{}' is no grpc://HOST:PORT; leave it empty for a session of this process",
                           Shortened(config.target));
  const auto found = RemoteSchemes().find(std::string_view(config.target).substr(0, end));
  if (found == RemoteSchemes().end())
    return Unimplemented("this program knows no sessions of '{}'; link Rivulet's dataflow_cluster for grpc://",
                         Shortened(config.target));
  return found->second(graph_def, config);
}

}  // namespace rivulet
