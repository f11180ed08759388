// rivulet ca request, which is also `rivulet-client request`: a key made at the site, and a request by which the
// authority certifies it.
#include "certificates/request.h"

#include "certificates/key.h"
#include "certificates/kit.h"
#include "cli/ca/commands.h"

namespace rivulet {
namespace {

struct CaRequestOptions {
  std::string name, out;
};

Status RequestCertificate(const CaRequestOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const CertificateName name, NameArgument(options.name));
  FileSystem& fs = FileSystem::Default();
  Delivery delivery(fs, options.out.empty() ? name.FileName() : options.out, Delivery::Form::kFolder);
  RIVULET_RETURN_IF_ERROR(delivery.CheckFree());
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.RemoveStaged()));  // of an interrupted call
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeKey());
  RIVULET_ASSIGN_OR_RETURN(std::string key_pem, KeyPem(key.get()));
  RIVULET_ASSIGN_OR_RETURN(std::string request, MakeRequest(name, key.get()));
  RIVULET_ASSIGN_OR_RETURN(const std::string number, RandomSerial());
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.Stage(number,
                                                  {{.name = std::string(kNodeKey), .bytes = std::move(key_pem)},
                                                   {.name = std::string(kNodeRequest), .bytes = std::move(request)}},
                                                  "", 0)));
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.Publish(number)));
  fmt::print("{}: the key of {}, which stays here\n", JoinPath(delivery.path(), kNodeKey), name.ToString());
  fmt::print("{}: send it to the authority\n", JoinPath(delivery.path(), kNodeRequest));
  return absl::OkStatus();
}

}  // namespace

StatusOr<CertificateName> NameArgument(const std::string& text) {
  StatusOr<CertificateName> name = ParseCertificateName(text);
  if (!name.ok()) return AsUsageError(name.status());
  return name;
}

Command CaRequestCommand() {
  auto options = std::make_shared<CaRequestOptions>();
  Command command{.name = "request",
                  .summary = "Make a site's key, and a request for the authority to certify it.",
                  .example = "rivulet ca request client/hospital-b"};
  command.Positional("NAME", &options->name, RoleNamesHelp())
      .Option("--out", "DIR", &options->out, "the folder to make [its name, client-hospital-b]");
  command.run = [options] { return RequestCertificate(*options); };
  return command;
}

}  // namespace rivulet
