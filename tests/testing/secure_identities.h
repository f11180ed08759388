// Identities of nodes by an authority in memory, as secure aggregation takes them.
#pragma once

#include <memory>
#include <string>

#include "certificates/identity.h"
#include "client/agent/secure_tasks.h"
#include "tests/federated/secure/test_authority.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline std::shared_ptr<const NodeIdentity> IdentityOf(const TestAuthority& authority, const std::string& id,
                                                      Role role = Role::kClient) {
  const TestAuthority::Holder holder = authority.Issue(id, role);
  auto identity = std::make_shared<NodeIdentity>();
  identity->name = {role, id};
  identity->certificate_pem = holder.certificate.Pem();
  identity->key_pem = KeyPem(holder.key.get()).value();
  identity->authority_pem = authority.certificate().Pem();
  identity->authority = ReadCertificate(identity->authority_pem, "a test's authority").value();
  return identity;
}

// A client's, on the authority's day. `folder` remembers what it has answered; "": nothing does.
inline std::shared_ptr<const SecureIdentity> SecureIdentityOf(const TestAuthority& authority, const std::string& id,
                                                              const std::string& folder = "") {
  auto secure = std::make_shared<SecureIdentity>();
  secure->identity = [identity = IdentityOf(authority, id)] { return identity; };
  secure->hides_examples = true;
  secure->now = [] { return kHarnessNow; };
  if (!folder.empty()) secure->answered = std::make_shared<AnsweredTasks>(FileSystem::Default(), folder);
  return secure;
}

}  // namespace rivulet::testing
