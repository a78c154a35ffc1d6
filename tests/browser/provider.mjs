// The OpenID provider of the browser tests: panva's certified oidc-provider on loopback, with its own login pages.
//
//     node provider.mjs PORT REDIRECT_URI CLIENT_SECRET
//
// Whoever signs in is what their name says: ada is an auditor of acme, max an admin of acme, rita an auditor of rival.
import Provider from 'oidc-provider';

const [port, redirectUri, secret] = process.argv.slice(2);
const people = {
  ada: { org: 'acme', roles: ['auditor'] },
  max: { org: 'acme', roles: ['admin'] },
  rita: { org: 'rival', roles: ['auditor'] },
};
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'coatcheck-console',
    client_secret: secret,
    redirect_uris: [redirectUri],
    response_types: ['code'],
    grant_types: ['authorization_code'],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  claims: { openid: ['sub', 'org', 'roles'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['only for tests'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
  pkce: { required: () => true },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
