//! Authentication and authorization.

use quorlock_server::{Clients, Tls, hash_bearer_token};
use quorlock_testkit::eventually;
use quorlock_testkit::http::{Events, agent, answer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::service::{Nodes, Service};

const BILLING_TOKEN: &str = "billing-0123456789abcdef0123456789abcdef";
const OPS_TOKEN: &str = "ops-0123456789abcdef0123456789abcdef";
pub(crate) const READER_TOKEN: &str = "reader-0123456789abcdef0123456789abcdef";

fn hash(token: &str) -> String {
    hash_bearer_token(token).unwrap()
}

/// Returns three clients with different scopes and names.
pub(crate) fn clients() -> Clients {
    let [billing, ops, reader] = [BILLING_TOKEN, OPS_TOKEN, READER_TOKEN].map(hash);
    let text = format!(
        "billing {billing} lock,read invoices/*,ledger\nops {ops} read,admin *\nreader {reader} read * # read-only\n"
    );
    Clients::parse(&text).unwrap()
}

/// Starts a service that only the clients of `clients` may call.
fn start_with_clients() -> Service {
    Service::with_settings(|config| config.allowed_clients = Some(clients()))
}

#[test]
fn only_known_bearer_tokens_are_accepted() {
    let service = start_with_clients();
    let request = json!({"name": "ledger"});
    service.lock(&request).problem(401, "unauthenticated");
    for wrong_token in ["", "x", &BILLING_TOKEN[1..], &BILLING_TOKEN.to_uppercase()] {
        service.post_as(wrong_token, "/v1/leases", &request).problem(401, "unauthenticated");
    }
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        service.get(path).expect(200);
    }
    for path in ["/v1/locks", "/v1/locks/a", "/v1/nodes", "/v1/history", "/v1/events", "/metrics"] {
        service.get(path).problem(401, "unauthenticated");
    }
    service.post_as(BILLING_TOKEN, "/v1/leases", &request).expect(201);
}

#[test]
fn a_client_is_limited_to_its_scopes_and_names() {
    let service = start_with_clients();
    let granted = service.post_as(BILLING_TOKEN, "/v1/leases", &json!({"name": "invoices/42"})).expect(201);
    for body in [json!({"name": "orders/1"}), json!({"names": ["ledger", "orders/1"]})] {
        service.post_as(BILLING_TOKEN, "/v1/leases", &body).problem(403, "forbidden");
    }
    for token in [OPS_TOKEN, READER_TOKEN] {
        let refused = service.post_as(token, "/v1/leases", &json!({"name": "ledger"})).problem(403, "forbidden");
        assert!(refused.text("detail").ends_with(" does not have the scope \"lock\""), "{refused:?}");
        service.post_as(token, "/v1/leases/renew", &granted.lease()).problem(403, "forbidden");
        service.post_as(token, "/v1/leases/release", &granted.lease()).problem(403, "forbidden");
    }
    service.get_as(BILLING_TOKEN, "/v1/locks/orders%2F1").problem(403, "forbidden");
    let fence = granted.number("fence");
    let break_request = json!({"fence": fence, "reason": "a test"});
    for token in [BILLING_TOKEN, READER_TOKEN] {
        service.post_as(token, "/v1/locks/invoices%2F42/break", &break_request).problem(403, "forbidden");
    }
    service.post_as(BILLING_TOKEN, "/v1/leases/renew", &granted.lease()).expect(200);
    service.post_as(OPS_TOKEN, "/v1/locks/invoices%2F42/break", &break_request).expect(200);
    service.post_as(BILLING_TOKEN, "/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
}

#[test]
fn locks_of_other_clients_are_not_listed() {
    let text = format!("all {} lock,read *\nbilling {} read invoices/*\n", hash(OPS_TOKEN), hash(BILLING_TOKEN));
    let service = Service::with_settings(|config| config.allowed_clients = Some(Clients::parse(&text).unwrap()));
    for name in ["invoices/1", "a", "orders/1"] {
        service.post_as(OPS_TOKEN, "/v1/leases", &json!({"name": name})).expect(201);
    }
    // The cursor of a page must not contain the name of a lock of another client.
    for path in ["/v1/locks", "/v1/locks?limit=1"] {
        let listed = service.get_as(BILLING_TOKEN, path).expect(200).body;
        let names: Vec<_> = listed["locks"].as_array().unwrap().iter().map(|lock| lock["name"].clone()).collect();
        assert_eq!((names, &listed["next"]), (vec![json!("invoices/1")], &serde_json::Value::Null));
    }
    let count_events = || service.get_as(OPS_TOKEN, "/v1/history").expect(200).body["events"].as_array().unwrap().len();
    eventually("the history has all three grants", || count_events() == 3);
    let newest = service.get_as(BILLING_TOKEN, "/v1/history?limit=1").expect(200).body;
    assert_eq!(newest["events"][0]["name"], "invoices/1", "newer events of other clients must not use up the limit");
    let request = agent(None).get(service.url("/v1/events")).header("authorization", format!("Bearer {BILLING_TOKEN}"));
    let mut events = Events::new(request.call().unwrap());
    let snapshot = events.until("snapshot").data;
    assert_eq!(snapshot["locks"].as_array().unwrap().len(), 1, "{snapshot}");
}

#[test]
fn a_holder_without_a_label_has_its_clients_name() {
    let service = start_with_clients();
    service.post_as(BILLING_TOKEN, "/v1/leases", &json!({"name": "ledger"})).expect(201);
    service.post_as(BILLING_TOKEN, "/v1/leases", &json!({"name": "invoices/1", "label": "month's end"})).expect(201);
    let label = |name: &str| service.get_as(READER_TOKEN, name).expect(200).body["holder"]["label"].clone();
    assert_eq!(label("/v1/locks/ledger"), "billing");
    assert_eq!(label("/v1/locks/invoices%2F1"), "month's end");
}

/// The limit is two connections for an address, and two connections for each client that authenticates from the
/// address.
#[test]
fn connections_count_for_the_client_that_authenticates_on_them() {
    let service = Service::with_settings(|config| {
        config.allowed_clients = Some(clients());
        config.limits.connections_per_client = 2;
    });
    let call = |agent: &ureq::Agent, token: &str| {
        answer(agent.get(service.url("/v1/nodes")).header("authorization", format!("Bearer {token}")).call())
    };
    let agents: Vec<ureq::Agent> = (0..3).map(|_| agent(None)).collect();
    // The agents keep their connections. A connection of an authenticated client does not count for the address.
    for agent in &agents[..2] {
        call(agent, OPS_TOKEN).expect(200);
    }
    let refused = call(&agents[2], OPS_TOKEN).problem(429, "rate-limited");
    assert!(refused.text("detail").contains("\"ops\" already has 2 connections"), "{refused:?}");
    call(&agents[2], READER_TOKEN).expect(200);
    call(&agents[0], OPS_TOKEN).expect(200);
    // A connection on which another client authenticates counts for the other client.
    call(&agents[0], READER_TOKEN).expect(200);
    call(&agent(None), OPS_TOKEN).expect(200);
}

/// A certificate authority for tests, in PEM.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate, and returns it with its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Returns an HTTP agent that trusts this authority, and uses this client certificate.
    fn agent_with(&self, client: Option<&(rcgen::Certificate, KeyPair)>) -> ureq::Agent {
        let root = Certificate::from_pem(self.pem.as_bytes()).unwrap().to_owned();
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root]));
        let client = client.map(|(certificate, key)| {
            let certificate = Certificate::from_pem(certificate.pem().as_bytes()).unwrap().to_owned();
            let key = PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap().to_owned();
            ClientCert::new_with_certs(&[certificate], key)
        });
        agent(Some(tls.client_cert(client).build()))
    }
}

#[test]
fn clients_can_authenticate_with_certificates_and_with_tokens_over_tls() {
    let (nodes, authority) = (Nodes::new_file(), Authority::new());
    let (certificate, key) = authority.sign("localhost");
    let file = |name: &str, text: &str| {
        let path = nodes.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, key, ca) =
        (file("cert.pem", &certificate.pem()), file("key.pem", &key.serialize_pem()), file("ca.pem", &authority.pem));
    let tls_service = nodes.serve_with(|config| config.tls = Some(Tls::read(&certificate, &key, None).unwrap()));
    assert!(tls_service.address.starts_with("https://"));
    answer(authority.agent_with(None).get(tls_service.url("/v1/nodes")).call()).expect(200);
    let refused = Authority::new().agent_with(None).get(tls_service.url("/v1/nodes")).call();
    assert!(refused.is_err(), "the agent trusts another authority");

    let with_authority = || Some(Tls::read(&certificate, &key, Some(&ca)).unwrap());
    let mutual_tls_service = nodes.serve_with(|config| config.tls = with_authority());
    let client = authority.sign("a client");
    answer(authority.agent_with(Some(&client)).get(mutual_tls_service.url("/v1/nodes")).call()).expect(200);
    let refused = authority.agent_with(None).get(mutual_tls_service.url("/v1/nodes")).call();
    assert!(refused.is_err(), "the client has no certificate");
    let foreign_client = Authority::new().sign("a client");
    let refused = authority.agent_with(Some(&foreign_client)).get(mutual_tls_service.url("/v1/nodes")).call();
    assert!(refused.is_err(), "another authority signed the certificate");

    let path = nodes.folder.path().join("client.der");
    std::fs::write(&path, client.0.der()).unwrap();
    let sha256sum = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
    let digits = String::from_utf8(sha256sum.stdout).unwrap().split_whitespace().next().unwrap().to_owned();
    let text = format!("web cert:{digits} read *\nops {} read *\n", hash(OPS_TOKEN));
    let service_with_clients = nodes.serve_with(|config| {
        config.tls = with_authority();
        config.allowed_clients = Some(Clients::parse(&text).unwrap());
    });
    let call = |agent: ureq::Agent, token: &str| {
        answer(
            agent.get(service_with_clients.url("/v1/nodes")).header("authorization", format!("Bearer {token}")).call(),
        )
    };
    answer(authority.agent_with(Some(&client)).get(service_with_clients.url("/v1/nodes")).call()).expect(200);
    answer(authority.agent_with(Some(&authority.sign("other"))).get(service_with_clients.url("/v1/nodes")).call())
        .problem(401, "unauthenticated");
    call(authority.agent_with(None), OPS_TOKEN).expect(200);
    call(authority.agent_with(None), READER_TOKEN).problem(401, "unauthenticated");
}
