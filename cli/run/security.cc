#include "cli/run/security.h"

#include "certificates/watched_identity.h"
#include "cli/shell_quote.h"

namespace rivulet {
namespace {

// The command of `rivulet ca` for a role: nodes of a federation get a kit with a start script.
const char* MadeBy(Role role) {
  const bool has_kit = role == Role::kClient || role == Role::kAggregator || role == Role::kCoordinator;
  return has_kit ? "kit" : "issue";
}

}  // namespace

void AddSecurityOptions(Command& command, SecurityOptions* options) {
  command.Option("--tls", "DIR", &options->tls,
                 "folder with this node's certificate and CA (made by `rivulet ca kit`)");
  command.CountedFlag("--insecure", &options->insecure, "use plaintext; give it twice to allow it beyond this machine");
}

std::string ShellArguments(const SecurityOptions& options) {
  std::string text = options.tls.empty() ? "" : " --tls " + ShellQuote(options.tls);
  for (int i = 0; i < options.insecure; ++i) text += " --insecure";
  return text;
}

StatusOr<Security> SecurityOf(const SecurityOptions& options, Role role, const NetworkAddress& address,
                              const std::string& lists_beside, std::function<void(const std::string& sentence)> tell) {
  if (!options.tls.empty() && options.insecure > 0) {
    return UsageError("--tls uses certificates and --insecure none; give one of them");
  }
  if (options.tls.empty() && options.insecure == 0) {
    return UsageError(
        "this node has no identity; give --tls DIR, the folder that 'rivulet ca {} {}/{}' makes, or accept plaintext "
        "with --insecure",
        MadeBy(role), role->name, role->named_by_host ? "HOST" : "ID");
  }
  if (options.tls.empty()) {
    Security security{InsecureCredentials(options.insecure >= 2), ""};
    RIVULET_RETURN_IF_ERROR(AsUsageError(security.credentials->Check(address)));
    return security;
  }
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<WatchedIdentity> identity,
                           WatchedIdentity::Open(FileSystem::Default(), Clock::System(), options.tls,
                                                 {.tell = tell, .lists_beside = lists_beside}));
  const CertificateName name = identity->Current()->name;
  if (name.role != role) {
    return FailedPrecondition("'{}' is the folder of '{}', and this is {}; give that of 'rivulet ca {} {}/…'",
                              options.tls, name.ToString(), role->text, MadeBy(role), role->name);
  }
  return Security{TlsCredentials(identity, std::move(tell)), name.id, [identity] { return identity->Warnings(); },
                  [identity] { return identity->Current(); }};
}

}  // namespace rivulet
