//! One route: where it is, who may use it, what answers it and what is said of it. The router and the document
//! are both made from these, so that neither has a route that the other does not have.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::access::Role;
use crate::config::MAX_BODY;
use crate::guard;
use crate::hub::Shared;
use crate::openapi::Operation;

/// What is done to the thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Looks.
    Get,
    /// Does something.
    Post,
    /// Puts it there, whole.
    Put,
    /// Changes parts of it.
    Patch,
    /// Takes it away.
    Delete,
}

impl Method {
    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    /// Its word, in small letters.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// One route.
pub struct Route {
    /// What is done.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// The role it needs; nothing if everybody may.
    pub role: Option<Role>,
    /// The largest body it takes.
    pub most_bytes: usize,
    /// What it does.
    pub said: Operation,
    handler: MethodRouter<Arc<Shared>>,
}

impl Route {
    /// A route that everybody may use.
    pub fn new<H, T>(method: Method, path: &'static str, handler: H, said: Operation) -> Self
    where
        H: Handler<T, Arc<Shared>>,
        T: 'static,
    {
        let handler = on(method.filter(), handler);
        Self { method, path, role: None, most_bytes: MAX_BODY, said, handler }
    }

    /// The same for a role.
    #[must_use]
    pub fn needs(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// The same with another bound of its body.
    #[must_use]
    pub fn up_to(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// What answers it, once it is clear that the caller may ask.
    pub fn handler(self) -> MethodRouter<Arc<Shared>> {
        let mut handler = self.handler;
        if self.most_bytes != MAX_BODY {
            handler = handler.layer(DefaultBodyLimit::max(self.most_bytes));
        }
        match self.role {
            Some(role) => {
                let asked = move |request: Request, next: Next| guard::require(role, request, next);
                handler.route_layer(middleware::from_fn(asked))
            }
            None => handler,
        }
    }
}
