// Subcommands of `rivulet ca`, a file per group, and their shared helpers.
#pragma once

#include <memory>
#include <string>

#include "certificates/authority.h"
#include "cli/command.h"

namespace rivulet {

Command CaInitCommand();
Command CaRequestCommand();
Command CaIssueCommand();
Command CaKitCommand();
Command CaRenewCommand();
Command CaRevokeCommand();
Command CaListCommand();
Command CaShowCommand();
Command CaAuthorCommand();

// --ca DIR.
void AddAuthorityFolder(Command& command, std::string* folder);
inline constexpr char kAuthorityFolder[] = "ca";

// Usage errors.
StatusOr<CertificateName> NameArgument(const std::string& text);
// The key of the request in `path`. INVALID_ARGUMENT: the request is for another name; as ReadRequest.
StatusOr<KeyHandle> RequestedKey(FileSystem& fs, const std::string& path, const CertificateName& name);

// Prints a line about a signed certificate: "client/hospital-a: certificate 0F3A… good until 2027-11-22 (365 days
// left)".
void PrintSigned(const IndexRow& row);

}  // namespace rivulet
