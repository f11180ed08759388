// Sessions with a remote graph: SessionConfig::target names the place. A library for such targets registers itself
// (dataflow/cluster for "grpc://HOST:PORT"); this folder links no network code.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/session/session.h"
#include "engine/base/status.h"

namespace rivulet {

// Thread-safe. Functions as in Session and PartialRun. UNAVAILABLE, from all: the target cannot be reached.
class RemoteSession {
 public:
  virtual ~RemoteSession() = default;  // calls Close
  virtual StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Session::Feeds& feeds,
                                            const std::vector<std::string>& fetches,
                                            const std::vector<std::string>& targets, proto::RunMetadata* metadata) = 0;
  virtual StatusOr<std::string> SetUpPartialRun(const std::vector<std::string>& feeds,
                                                const std::vector<std::string>& fetches,
                                                const std::vector<std::string>& targets) = 0;
  virtual StatusOr<std::vector<Tensor>> RunPartial(const std::string& run, const Session::Feeds& feeds,
                                                   const std::vector<std::string>& fetches) = 0;
  virtual Status Extend(std::string_view graph_def) = 0;
  virtual Status Reset(std::span<const std::string> containers) = 0;
  virtual void Close() = 0;
};

using MakeRemoteSession =
    std::function<StatusOr<std::unique_ptr<RemoteSession>>(std::string_view graph_def, const SessionConfig& config)>;

// At start-up: `const RegisterRemoteSessions grpc("grpc", Make);`. Ends the program if the scheme is taken.
struct RegisterRemoteSessions {
  RegisterRemoteSessions(std::string scheme, MakeRemoteSession make);
};
// Opens `config.target`. INVALID_ARGUMENT: not "SCHEME://…". UNIMPLEMENTED: no linked library supports the scheme.
StatusOr<std::unique_ptr<RemoteSession>> OpenRemoteSession(std::string_view graph_def, const SessionConfig& config);

}  // namespace rivulet
