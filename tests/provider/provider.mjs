// Runs a certified OpenID provider on a port of the loopback, as the file that it is given says.
//
//     node provider.mjs NODE_MODULES CONFIGURATION
//
// The provider is as its package makes it: what stands here are keys, clients, and for which
// service a token is. Its own plain pages take any name as a login; nothing outside this machine
// can reach them.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, file] = process.argv.slice(2);
const entry = pathToFileURL(join(modules, 'oidc-provider', 'lib', 'index.js'));
const { Provider, errors } = await import(entry);
const given = JSON.parse(readFileSync(file, 'utf8'));

function signed({ algorithm, secret }) {
  return secret === undefined
    ? { alg: algorithm }
    : { alg: algorithm, key: Buffer.from(secret) };
}

const provider = new Provider(given.issuer, {
  jwks: { keys: given.keys },
  cookies: { keys: [given.cookieSecret] },
  clients: given.clients,
  clientDefaults: { id_token_signed_response_alg: given.keys[0].kty === 'EC' ? 'ES256' : 'RS256' },
  scopes: ['openid', 'offline_access'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  // What an installation adds where its subjects are no names of ours.
  extraTokenClaims: (_, token) => ({
    analyst: (token.accountId ?? token.clientId).replaceAll(/[^A-Za-z0-9]/g, '-'),
  }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => {
        const resource = given.resources[indicator];
        if (resource === undefined) throw new errors.InvalidTarget();
        return {
          scope: '',
          audience: resource.audience,
          accessTokenTTL: resource.seconds,
          accessTokenFormat: 'jwt',
          jwt: { sign: signed(resource) },
        };
      },
    },
  },
});

// An issuer may have a path, under which the provider answers.
const path = new URL(given.issuer).pathname.replace(/\/$/, '');
const answer = provider.callback();
const server = createServer((request, response) => {
  request.originalUrl = request.url;
  if (request.url.startsWith(`${path}/`)) request.url = request.url.slice(path.length);
  answer(request, response);
});
server.listen(given.port, '127.0.0.1', () => console.log('listening'));
