// A certified OpenID provider whose only clients are programs: node provider.mjs PORT NAME...
// It makes new keys at each start. Each NAME is a client that gets tokens with itself as subject.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { Provider } from 'oidc-provider';

const [port, ...names] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

function key(type, options, alg) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg };
}

const info = (resource) => ({
  scope: '',
  audience: resource.replace('urn:', ''),
  accessTokenTTL: 600,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: resource.endsWith('elliptic') ? 'ES256' : 'RS256' } },
});

const provider = new Provider(issuer, {
  jwks: {
    keys: [
      key('rsa', { modulusLength: 2048 }, 'RS256'),
      key('ec', { namedCurve: 'P-256' }, 'ES256'),
    ],
  },
  clients: names.map((name) => ({
    client_id: name,
    client_secret: `secret of ${name}`,
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  })),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: (ctx, resource) => info(resource) },
  },
});

provider.listen(Number(port), '127.0.0.1', () => console.log(issuer));
