//! Requests that are passed on as they are, to the backend that has the model.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Limited;
use hyper::{Response, body::Incoming};

use super::{Router, Served, held::Held, member::Stay, tour};
use crate::{
    backend::{Error, forward::Forward},
    chat::Request,
};

impl Router {
    /// Whether everyone who may be asked for `request` takes it as the client wrote it.
    pub fn is_native(&self, request: &Request) -> bool {
        let stops = self.stops(request);
        let asked = |index: usize| self.members.get(index);
        let takes = |index: usize, model: &str| asked(index).is_some_and(|member| member.kind.is_native() && !member.prompts_tools(model));
        match stops {
            Some(stops) => stops.iter().all(|stop| takes(stop.candidate.backend, &stop.candidate.model)),
            None => (0..self.members.len()).all(|index| takes(index, &request.model)),
        }
    }

    /// Passes a chat completion on, whose client's bytes are `body`. An error status is an [`Error::Status`]; the next backend is asked
    /// where the answer was none.
    pub async fn pass(&self, request: &Request, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        let mut tour = self.tour(request, &Served::default()).await?;
        loop {
            let (stay, stop) = tour.next().await?;
            let changed = tour::changed(request, &stay.member, &stop);
            let adapted = stay.member.kind.adapted(changed.as_ref().unwrap_or(request));
            let body = adapted.or(changed).map_or_else(|| body.clone(), |request| written(&request));
            match stay.member.target.forward_success(forward, body).await {
                Ok(response) => {
                    tour.served(&stay, &stop);
                    return Ok(response.map(|body| Held::new(body, stay)));
                }
                Err(error) => tour.failed(&stay, error)?,
            }
        }
    }

    /// Passes any other request on. Any status is an answer. It goes to the first backend that has the `model` which it names, else to the
    /// main one; it is not sent twice.
    pub async fn forward(&self, model: Option<String>, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        let (stay, body) = self.place(model, body).await?;
        let response = stay.member.target.forward(forward, body).await?;
        Ok(response.map(|body| Held::new(body, stay)))
    }

    /// Passes a request on as [`Self::forward`] does, but makes an error status an [`Error::Status`].
    pub async fn forward_success(&self, model: Option<String>, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        let (stay, body) = self.place(model, body).await?;
        let response = stay.member.target.forward_success(forward, body).await?;
        Ok(response.map(|body| Held::new(body, stay)))
    }

    /// A place at the backend that has `model`, and the body that names it there.
    async fn place(&self, model: Option<String>, body: Bytes) -> Result<(Stay, Bytes), Error> {
        let request = Request { model: model.unwrap_or_default(), ..Request::default() };
        let tour = if request.model.is_empty() { None } else { self.tour(&request, &Served::default()).await.ok() };
        match tour {
            Some(mut tour) => {
                let (stay, stop) = tour.next().await?;
                let body = if stop.candidate.model == request.model { body } else { renamed(&body, &stop.candidate.model) };
                Ok((stay, body))
            }
            None => Ok((self.main()?.enter().await?, body)),
        }
    }

    /// Passes a request on to the main backend, its body as it arrives.
    pub async fn forward_stream(&self, forward: &Forward<'_>, body: Limited<Incoming>) -> Result<Response<Held>, Error> {
        let stay = self.main()?.enter().await?;
        let response = stay.member.target.forward_stream(forward, body).await?;
        Ok(response.map(|body| Held::new(body, stay)))
    }

    fn main(&self) -> Result<&std::sync::Arc<super::Member>, Error> {
        self.members.get(self.default_member().unwrap_or(0)).ok_or(Error::Protocol("there is no backend"))
    }
}

/// The fields of `request` as a JSON object.
fn written(request: &Request) -> Bytes {
    object(request.fields.iter().map(|(name, value)| (name.as_str(), value)))
}

/// The JSON object `body` with another `model`.
fn renamed(body: &Bytes, model: &str) -> Bytes {
    let Ok(mut fields) = crate::wire::fields::object(body) else { return body.clone() };
    let name = Bytes::from(serde_json::to_vec(model).unwrap_or_default());
    for (_, value) in fields.iter_mut().filter(|(field, _)| field == "model") {
        *value = name.clone();
    }
    object(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a Bytes)>) -> Bytes {
    let mut json = BytesMut::new();
    for (name, value) in fields {
        json.put_slice(if json.is_empty() { b"{" } else { b"," });
        json.put_slice(&serde_json::to_vec(name).unwrap_or_default());
        json.put_slice(b":");
        json.put_slice(value);
    }
    if json.is_empty() {
        json.put_slice(b"{");
    }
    json.put_slice(b"}");
    json.freeze()
}
