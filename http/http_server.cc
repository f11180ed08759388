#include "http/http_server.h"

#include "certificates/watched_identity.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "http/admission.h"
#include "http/beast_server.h"
#include "rpc/credentials.h"

namespace rivulet {

bool HttpServer::IsBuilt() { return true; }

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpOptions& options,
                                                         std::function<void(const std::string& sentence)> tell) {
  StatusOr<NetworkAddress> address = ParseAddress(options.address);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--http"));
  if (!address->IsLoopback() && options.tls.empty() && !options.plaintext_beyond_loopback) {
    return UsageError(
        "--http serves only this machine, at 127.0.0.1, [::1] or localhost, not '{}'; use ssh -L from elsewhere, or "
        "give --http-tls DIR to admit readers by token or operator's certificate",
        Shortened(address->host));
  }
  std::shared_ptr<WatchedIdentity> identity;
  if (!options.tls.empty()) {
    RIVULET_ASSIGN_OR_RETURN(identity,
                             WatchedIdentity::Open(FileSystem::Default(), Clock::System(), options.tls,
                                                   {.tell = std::move(tell), .lists_beside = options.lists_beside}));
    if (!ServesOthers(identity->Current()->name.role)) {
      return FailedPrecondition(
          "'{}' is the folder of '{}', which is no server; --http-tls takes that of 'rivulet ca kit coordinator/HOST'",
          options.tls, identity->Current()->name.ToString());
    }
  }
  RIVULET_ASSIGN_OR_RETURN(auto admission, Admission::Create(*address, options.token_file, identity, options.readers));
  return ListenByBeast(*std::move(address), options.limits, std::move(admission), std::move(identity));
}

}  // namespace rivulet
